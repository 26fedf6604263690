"""Parallel text for translation."""
