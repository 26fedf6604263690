"""The GLUE score: the mean over its tasks (Wang et al. 2019, section 3)."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.common.errors import ToolkitError

TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "QNLI", "RTE")
NINE_TASKS = (*TASKS, "MNLI-m", "MNLI-mm")
"""Chang et al. 2021: both parts of MNLI, without WNLI."""
EIGHT_TASKS = (*TASKS, "MNLI-m")
"""TACO and ConvBERT: eight tasks, MNLI as one."""


def glue_score(scores: Mapping[str, float], columns: tuple[str, ...] = NINE_TASKS) -> float:
    """sum_t score_t / T; a task's score is the mean of its official metrics."""
    missing = [name for name in columns if name not in scores]
    if missing:
        raise ToolkitError(
            f"the GLUE score requires all {len(columns)} tasks, but {', '.join(missing)} is "
            f"missing. Evaluate them first."
        )
    return sum(scores[name] for name in columns) / len(columns)
