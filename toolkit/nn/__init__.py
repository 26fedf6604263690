"""Layers, and the attention parts and fast paths that they are built from."""
