import pytest

from toolkit.common.errors import ToolkitError
from toolkit.generation.requests import Coded, Item, batches, read_line, share


def code(text):
    if "?" in text:
        raise ToolkitError("a question")
    text, _, reference = text.partition("\t")
    return Coded([len(word) for word in text.split()], [], text, reference or None)


def test_a_line_is_read_with_its_tokens_or_a_note():
    assert read_line(2, b"a bc\r\n", code) == Item(2, "a bc", [1, 2])
    assert read_line(3, b"a\tb", code) == Item(3, "a", [1], reference="b")
    assert read_line(1, b"\xef\xbb\xbfa", code).text == "a"
    assert read_line(1, b"why?", code).note == "a question"
    assert read_line(1, b"ab\xff", code).note == "not UTF-8 at byte 3"


def grouped(lengths, **options):
    items = [Item(n, "", [0] * length) for n, length in enumerate(lengths)]
    settings = {"max_tokens": 100, "batch_size": 100, "alike": False, **options}
    found = list(batches(items, **settings))
    assert sorted(item.number for batch in found for item in batch) == list(range(len(items)))
    return [[len(item.source) for item in batch] for batch in found]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[7, 5, 5, 2, 0]]),
        ({"batch_size": 2}, [[7, 5], [5, 2], [0]]),
        ({"max_tokens": 16}, [[7, 5], [5, 2], [0]]),
        ({"alike": True}, [[7], [5, 5], [2], [0]]),
    ],
)
def test_batches_hold_neighbours_in_length_within_the_bounds(options, wanted):
    assert grouped([5, 2, 7, 0, 5], **options) == wanted


def test_references_that_are_told_count_as_the_sources_do():
    items = [Item(n, "", [0], [0] * length) for n, length in enumerate([5, 2, 7, 0, 5])]
    found = batches(items, max_tokens=16, batch_size=100, alike=True)
    assert [[len(item.target) for item in batch] for batch in found] == [[7, 5], [5, 2], [0]]


def test_ranks_share_the_batches():
    found = [[Item(n, "")] for n in range(5)]
    parts = [share(found, rank, 2) for rank in range(2)]
    assert [len(part) for part in parts] == [3, 2]
