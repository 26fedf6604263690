"""Implementations of the commands, except training."""
