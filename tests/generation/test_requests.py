import pytest

from toolkit.common.errors import ToolkitError
from toolkit.generation.generate import (
    GenerationRequest,
    answer_lines,
    batch_by_length,
    request_lengths,
)
from toolkit.generation.output import FillMaskOutput


def grouped(lengths, **options):
    items = [GenerationRequest(n, "", [0] * length) for n, length in enumerate(lengths)]
    settings = {"max_tokens": 100, "batch_size": 100, **options}
    batches = list(batch_by_length(items, request_lengths, **settings))
    assert sorted(item.number for batch in batches for item in batch) == list(range(len(items)))
    return [[len(item.source) for item in batch] for batch in batches]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[7, 5, 5, 2, 0]]),
        ({"batch_size": 2}, [[7, 5], [5, 2], [0]]),
        ({"max_tokens": 16}, [[7, 5], [5, 2], [0]]),
        ({"same_first": True}, [[7], [5, 5], [2], [0]]),
    ],
)
def test_batches_have_requests_of_similar_length_within_the_limits(options, wanted):
    assert grouped([5, 2, 7, 0, 5], **options) == wanted


def test_batches_count_references_like_sources():
    items = [
        GenerationRequest(n, "", [0], [0] * length) for n, length in enumerate([5, 2, 7, 0, 5])
    ]
    batches = batch_by_length(items, request_lengths, 16, same_first=True)
    assert [[len(item.target) for item in batch] for batch in batches] == [[7, 5], [5, 2], [0]]


def measure(text):
    if "_" not in text:
        raise ToolkitError("no mask")
    return len(text)


class Filler:
    """Fills every _ with the first letter of its sentence, and records the batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, sentences):
        self.batches.append(list(sentences))
        return [{"masks": [[(s[0], 1.0)]] * s.count("_")} for s in sentences]


def fill(*lines, buffer_size=100, max_tokens=20):
    filler = Filler()
    sizes = {"buffer_size": buffer_size, "max_tokens": max_tokens}
    return list(answer_lines(lines, FillMaskOutput, filler, measure, **sizes)), filler.batches


def test_batches_have_lines_of_similar_length_within_max_tokens():
    lines = [b"a_", b"bbbbbbbbb_", b"c_", b"ddddddddd_", b"e_", b"fffffffff_"]
    _, batches = fill(*lines, max_tokens=20)
    assert batches == [["bbbbbbbbb_", "ddddddddd_"], ["fffffffff_", "a_"], ["c_", "e_"]]


def test_overlong_line_gets_a_note():
    outputs, batches = fill(b"a" * 30 + b"_", max_tokens=20)
    assert outputs[0].note == "31 tokens, more than --max-tokens 20" and batches == []
