import pytest

from toolkit.reporting.runs import short_names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/runs/a"], ["a"]),
        (["/runs/a", "/runs/b"], ["a", "b"]),
        (
            ["x/a/checkpoint_best", "x/b/checkpoint_best"],
            ["a/checkpoint_best", "b/checkpoint_best"],
        ),
        (["/runs/a", "/runs/a"], ["a", "a"]),
        (["a", "b/a"], ["a", "b/a"]),
    ],
)
def test_short_names_are_the_shortest_distinct_path_suffixes(paths, names):
    assert short_names(paths) == names
