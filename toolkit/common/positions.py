"""Position ids: 0, 1, 2, ... in every sentence."""

HIDDEN_POSITION = -1
"""Id of a position that is hidden from the model (TACO, A.2)."""
