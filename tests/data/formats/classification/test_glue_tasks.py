from __future__ import annotations

from toolkit.config.commands.preprocess_formats import GLUE_TASKS
from toolkit.data.formats.classification.glue_tasks import TASKS
from toolkit.metrics.classification import OF_CLASSES, OF_NUMBERS


def test_all_nine_tasks_and_the_diagnostic_set_are_known():
    assert tuple(TASKS) == GLUE_TASKS and len(TASKS) == 10


def test_every_task_has_figures_that_are_known():
    for task in TASKS.values():
        known = OF_NUMBERS if task.number else OF_CLASSES
        assert set(task.figures) <= set(known) and task.number == (not task.classes)


def test_a_submission_has_the_benchmarks_eleven_files():
    mnli, others = ["MNLI-m", "MNLI-mm"], ["QNLI", "RTE", "WNLI", "AX"]
    names = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", *mnli, *others]
    submitted = [name for task in TASKS.values() for name, _ in task.submitted.values()]
    assert [f"{name}.tsv" for name in names] == submitted
