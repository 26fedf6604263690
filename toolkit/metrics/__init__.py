"""Functions and accumulators from predictions to numbers."""
