"""Generators, and data that are inverted from models."""
