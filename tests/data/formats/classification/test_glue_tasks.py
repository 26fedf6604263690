from __future__ import annotations

from toolkit.data.formats.classification.split import CLASS_METRICS, GLUE_TASKS, NUMBER_METRICS
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS
from toolkit.metrics.classification import CLASSIFICATION_METRICS, REGRESSION_METRICS


def test_glue_has_nine_tasks_and_the_diagnostic_set():
    assert tuple(GLUE_SCHEMAS) == GLUE_TASKS and len(GLUE_SCHEMAS) == 10


def test_every_task_has_known_metrics():
    for task in GLUE_SCHEMAS.values():
        known = REGRESSION_METRICS if task.is_regression else CLASSIFICATION_METRICS
        assert set(task.metrics) <= set(known) and task.is_regression == (not task.classes)


def test_submission_has_the_benchmarks_eleven_files():
    mnli, others = ["MNLI-m", "MNLI-mm"], ["QNLI", "RTE", "WNLI", "AX"]
    names = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", *mnli, *others]
    submitted = [name for task in GLUE_SCHEMAS.values() for name, _ in task.submissions.values()]
    assert [f"{name}.tsv" for name in names] == submitted


def test_metrics_of_labels_are_those_that_exist():
    assert tuple(CLASSIFICATION_METRICS) == CLASS_METRICS
    assert tuple(REGRESSION_METRICS) == NUMBER_METRICS
