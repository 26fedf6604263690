import numpy as np
import pytest

from toolkit.metrics.classification import class_metrics, confusion_matrix, macro_f1


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
