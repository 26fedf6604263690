import numpy as np


def take(column, start, end):
    indices = np.arange(start, end)[None]
    return column.take(indices, np.array([start]), np.array([end]))[0].tolist()


def test_items_are_read_as_they_were_written(column):
    found = column(([[1, 2], [3], [4, 5, 6]], [0, 2]))
    (part,) = found.parts
    assert part.offsets.tolist() == [0, 2, 3, 6]
    assert part.document_starts.tolist() == [0, 2]
    assert take(found, 2, 6) == [3, 4, 5, 6]


def test_elements_are_numbered_across_parts(column):
    found = column(([[1, 2], [3]], [0]), ([[4], [5, 6]], [1]))
    assert (found.items, found.elements, found.documents) == (4, 6, 2)
    rows = found.take(np.array([[4, 5], [0, 1], [3, 3]]), np.array([4, 0, 3]), np.array([6, 2, 4]))
    assert rows.tolist() == [[5, 6], [1, 2], [4, 4]]


def test_ids_above_65535_survive(column):
    assert take(column(([[70000]], [0]), dtype="<i4"), 0, 1) == [70000]
