from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.metrics.glue import EIGHT_TASKS, NINE_TASKS, glue_score


def test_the_score_is_the_plain_mean_over_the_papers_columns():
    scores = {name: float(place) for place, name in enumerate(NINE_TASKS)}
    assert glue_score(scores) == 36 / 9 and glue_score(scores, EIGHT_TASKS) == 28 / 8


def test_a_missing_task_is_no_zero():
    with pytest.raises(ToolkitError, match=r"all its 9 columns, but MNLI-mm is missing"):
        glue_score(dict.fromkeys(EIGHT_TASKS, 0.5))
