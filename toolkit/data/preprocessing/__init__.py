"""Machinery that all formats of toolkit-preprocess share."""
