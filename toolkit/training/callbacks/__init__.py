"""Callbacks: what observes a training step."""
