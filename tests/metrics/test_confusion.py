import numpy as np
import pytest

from toolkit.metrics.classification import class_metrics, confusion_matrix, macro_f1

GOLD, GIVEN = np.array([0, 0, 1, 2, -1]), np.array([0, 1, 1, 0, 1])


def test_rows_are_true_classes_and_columns_given_ones():
    assert confusion_matrix(GOLD, GIVEN, 3).tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]


def test_a_class_is_measured_by_precision_recall_and_f1():
    first, second, third = class_metrics(confusion_matrix(GOLD, GIVEN, 4), "abcd")  # d is nowhere
    assert first[:5] == ("a", 0.5, 0.5, 0.5, 2)
    assert second == ("b", 1 / 3, 1.0, 0.5, 1)
    assert third == ("c", 0.0, 0.0, 0.0, 1)
    assert macro_f1(confusion_matrix(GOLD, GIVEN, 4), "abcd") == pytest.approx(1 / 3)


def test_figures_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(0)
    gold, given = draw.integers(0, 6, 500), draw.integers(0, 7, 500)
    table = confusion_matrix(gold, given, 7)
    want = sklearn.precision_recall_fscore_support(gold, given, labels=range(7), zero_division=0)
    got = [it[1:] for it in class_metrics(table, "abcdefg")]
    np.testing.assert_allclose(np.array(got).T, want)
    assert macro_f1(table, "abcdefg") == pytest.approx(want[2].mean())
    np.testing.assert_array_equal(table[:7], sklearn.confusion_matrix(gold, given))
