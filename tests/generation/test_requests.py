import pytest

from toolkit.common.errors import ToolkitError
from toolkit.generation.generate import (
    EncodedLine,
    GenerationRequest,
    batch_requests,
    parse_line,
    select_rank_batches,
)


def code(text):
    if "?" in text:
        raise ToolkitError("a question")
    text, _, reference = text.partition("\t")
    return EncodedLine([len(word) for word in text.split()], [], text, reference or None)


def test_parse_line_returns_tokens_or_a_note():
    assert parse_line(2, b"a bc\r\n", code) == GenerationRequest(2, "a bc", [1, 2])
    assert parse_line(3, b"a\tb", code) == GenerationRequest(3, "a", [1], reference="b")
    assert parse_line(1, b"\xef\xbb\xbfa", code).text == "a"
    assert parse_line(1, b"why?", code).note == "a question"
    assert parse_line(1, b"ab\xff", code).note == "not UTF-8 at byte 3"


def grouped(lengths, **options):
    items = [GenerationRequest(n, "", [0] * length) for n, length in enumerate(lengths)]
    settings = {"max_tokens": 100, "batch_size": 100, "same_source_length": False, **options}
    batches = list(batch_requests(items, **settings))
    assert sorted(item.number for batch in batches for item in batch) == list(range(len(items)))
    return [[len(item.source) for item in batch] for batch in batches]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[7, 5, 5, 2, 0]]),
        ({"batch_size": 2}, [[7, 5], [5, 2], [0]]),
        ({"max_tokens": 16}, [[7, 5], [5, 2], [0]]),
        ({"same_source_length": True}, [[7], [5, 5], [2], [0]]),
    ],
)
def test_batches_have_requests_of_similar_length_within_the_limits(options, wanted):
    assert grouped([5, 2, 7, 0, 5], **options) == wanted


def test_batches_count_references_like_sources():
    items = [
        GenerationRequest(n, "", [0], [0] * length) for n, length in enumerate([5, 2, 7, 0, 5])
    ]
    batches = batch_requests(items, max_tokens=16, batch_size=100, same_source_length=True)
    assert [[len(item.target) for item in batch] for batch in batches] == [[7, 5], [5, 2], [0]]


def test_ranks_share_the_batches():
    batches = [[GenerationRequest(n, "")] for n in range(5)]
    parts = [select_rank_batches(batches, rank, 2) for rank in range(2)]
    assert [len(part) for part in parts] == [3, 2]
