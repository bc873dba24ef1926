"""Generators, and data that are inverted from models."""

import os

for unused in ("JAX", "TENSORFLOW", "CUPY"):  # POT loads them, and JAX takes most of a GPU's memory
    os.environ.setdefault(f"POT_BACKEND_DISABLE_{unused}", "1")
