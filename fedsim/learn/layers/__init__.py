"""Layers of models, with a leading axis of clients."""
