import numpy as np
import pytest

from toolkit.metrics.classification import class_metrics, confusion_matrix, macro_f1

LABELS, PREDICTED = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])


def test_confusion_matrix_has_true_classes_as_rows():
    assert confusion_matrix(LABELS, PREDICTED, 3).tolist() == [
        [1, 1, 0],
        [0, 1, 0],
        [1, 0, 0],
    ]


def test_class_metrics_are_precision_recall_f1_and_support():
    counts = confusion_matrix(LABELS, PREDICTED, 4)  # d does not occur
    first, second, third = class_metrics(counts, "abcd")
    assert first[:5] == ("a", 0.5, 0.5, 0.5, 2)
    assert second == ("b", 0.5, 1.0, 2 / 3, 1)
    assert third == ("c", 0.0, 0.0, 0.0, 1)
    assert macro_f1(counts, "abcd") == pytest.approx(7 / 18)


def test_class_metrics_equal_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(0)
    labels, predictions = draw.integers(0, 6, 500), draw.integers(0, 7, 500)
    table = confusion_matrix(labels, predictions, 7)
    want = sklearn.precision_recall_fscore_support(
        labels, predictions, labels=range(7), zero_division=0
    )
    got = [it[1:] for it in class_metrics(table, "abcdefg")]
    np.testing.assert_allclose(np.array(got).T, want)
    assert macro_f1(table, "abcdefg") == pytest.approx(want[2].mean())
    np.testing.assert_array_equal(table, sklearn.confusion_matrix(labels, predictions))
