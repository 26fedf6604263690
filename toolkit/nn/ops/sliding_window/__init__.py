"""Attention within a sliding window of positions."""
