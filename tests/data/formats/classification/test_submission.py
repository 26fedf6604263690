from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import ClassificationSplit, Labels
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS, write_submission


class Rows(ClassificationSplit):
    """A split as far as answers to it must know it."""

    def __init__(self, **facts):
        vars(self).update(facts)

    def __len__(self):
        return len(self.index)


def rows_of(task, split="test", count=1, **changes):
    spec = GLUE_SCHEMAS[task]
    labels = Labels(
        task=task,
        classes=list(spec.classes),
        metrics=[],
        pairs=spec.pairs,
        bounds=[0.0, 5.0] if spec.is_regression else [],
    )
    given = {
        "index": np.arange(count),
        "is_regression": spec.is_regression,
        "labels": labels,
        "name": split,
    }
    return Rows(**{**given, "folder": SimpleNamespace(name="there"), **changes})


def test_submission_has_a_header_and_rows_in_order_of_the_index(tmp_path):
    rows = rows_of("RTE", count=3, index=np.array([2, 0, 1]))
    write_submission(rows, np.array([1, 0, 0]), tmp_path / "mine.tsv")
    assert (tmp_path / "mine.tsv").read_text() == (
        "index\tprediction\n0\tentailment\n1\tentailment\n2\tnot_entailment\n"
    )


def test_numbers_are_clipped_to_the_range_of_the_task(tmp_path):
    write_submission(rows_of("STS-B", count=3), np.array([-0.5, 2.12345, 7.0]), tmp_path / "x.tsv")
    assert (tmp_path / "x.tsv").read_text().split()[3::2] == ["0.000", "2.123", "5.000"]


def test_submission_in_a_folder_has_the_benchmarks_name(tmp_path):
    write_submission(rows_of("MNLI", "test_mismatched", 1), np.array([2]), tmp_path)
    assert (tmp_path / "MNLI-mm.tsv").read_text() == "index\tprediction\n0\tcontradiction\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of("RTE", count=2, name="valid"), r"must be of a test split of GLUE, but is of 'val"),
        (rows_of("RTE", count=2, index=np.array([1, 1])), r"needs its own index, but split"),
    ],
)
def test_invalid_submissions_are_rejected(rows, message, tmp_path):
    with pytest.raises(ToolkitError, match=message):
        write_submission(rows, np.zeros(2, np.int64), tmp_path)
