"""Checkpoints from and to other libraries."""
