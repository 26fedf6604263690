from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.metrics.classification import EIGHT_TASKS, NINE_TASKS, glue_score


def test_glue_score_is_the_mean_over_the_tasks_of_the_paper():
    scores = {name: float(index) for index, name in enumerate(NINE_TASKS)}
    assert glue_score(scores) == 36 / 9 and glue_score(scores, EIGHT_TASKS) == 28 / 8


def test_glue_score_rejects_a_missing_task():
    with pytest.raises(ToolkitError, match=r"all 9 tasks, but MNLI-mm is missing"):
        glue_score(dict.fromkeys(EIGHT_TASKS, 0.5))
