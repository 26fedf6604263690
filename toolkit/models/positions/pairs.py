"""Position terms that cannot be combined, each pair with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from toolkit.common.errors import ToolkitError

SAME_PLACE = "both are vectors added to the token embeddings, and a table can learn sines"
CONTAINED = "composite contains it"
SCALE = "deberta divides the scores by sqrt(3 K) for three products, and this would be a fourth"
REASONS = {
    frozenset({"learned", "sinusoidal"}): SAME_PLACE,
    frozenset({"fixed", "composite"}): CONTAINED,
    frozenset({"shaw", "composite"}): CONTAINED,
    frozenset({"deberta", "shaw"}): SCALE,
    frozenset({"deberta", "xl"}): SCALE,
    frozenset({"deberta", "composite"}): SCALE,
    frozenset({"rope", "xl"}): "xl adds a vector to the queries that rope rotates: no paper says "
    "which comes first",
}
"""Pair of names -> why it is not allowed."""


def check_positions(names: Sequence[str]) -> None:
    """Raise a ToolkitError if the names are not a set of terms that can be added."""
    hint = "Change arch.positions."
    if not names:
        raise ToolkitError("arch.positions must name at least one term. Pass none for no terms.")
    if len(set(names)) < len(names):
        raise ToolkitError(
            f"arch.positions must not repeat a term, but are {', '.join(names)}. {hint}"
        )
    if "none" in names and len(names) > 1:
        raise ToolkitError(
            f"arch.positions must not contain none with other terms, but are {', '.join(names)}. "
            f"{hint}"
        )
    for pair in combinations(names, 2):
        reason = REASONS.get(frozenset(pair))
        if reason is not None:
            raise ToolkitError(
                f"arch.positions must not contain both {' and '.join(pair)}: {reason}. {hint}"
            )
