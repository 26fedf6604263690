"""Search, sampling, constraints and output of text generation."""
