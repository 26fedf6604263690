"""Position ids, as data, models and tasks agree on them: 0, 1, 2, ... in every sentence."""

HIDDEN_POSITION = -1
"""Id of a position that the model must not know (TACO, A.2)."""
