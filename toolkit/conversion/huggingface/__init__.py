"""Checkpoints from and to Hugging Face Transformers."""
