"""The run and the training loop."""
