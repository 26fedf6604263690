"""Text columns to training samples, and masking."""
