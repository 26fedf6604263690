"""Labeled rows."""
