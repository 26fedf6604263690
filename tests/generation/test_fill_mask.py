import pytest

from toolkit.common.errors import ToolkitError
from toolkit.generation.generate import fill_lines


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
        return [([[(s[0], 1.0)]] * s.count("_"), "") for s in sentences]


def fill(*lines, buffer_size=100, max_tokens=20):
    filler = Filler()
    outputs = fill_lines(lines, filler, measure, buffer_size=buffer_size, max_tokens=max_tokens)
    return list(outputs), filler.batches


@pytest.mark.parametrize("buffer_size", [1, 2, 100])
def test_fill_lines_yields_one_output_per_line_in_order_whatever_the_buffer(buffer_size):
    lines = [b"bbbbbb_\n", b"a_\n", b"\n", b"no\n", b"cc__\r\n", b"d_"]
    outputs, _ = fill(*lines, buffer_size=buffer_size)
    assert [a.number for a in outputs] == [1, 2, 3, 4, 5, 6]
    assert [a.text for a in outputs] == ["bbbbbb_", "a_", "", "no", "cc__", "d_"]
    assert [[mask[0][0] for mask in a.masks] for a in outputs] == [
        ["b"],
        ["a"],
        [],
        [],
        ["c"] * 2,
        ["d"],
    ]
    assert [a.note for a in outputs] == ["", "", "no mask", "no mask", "", ""]


def test_batches_have_lines_of_similar_length_within_max_tokens():
    lines = [b"a_", b"bbbbbbbbb_", b"c_", b"ddddddddd_", b"e_", b"fffffffff_"]
    _, batches = fill(*lines, max_tokens=20)
    assert batches == [["a_", "c_", "e_"], ["bbbbbbbbb_", "ddddddddd_"], ["fffffffff_"]]


def test_overlong_line_gets_a_note():
    outputs, batches = fill(b"a" * 30 + b"_", max_tokens=20)
    assert outputs[0].note == "31 tokens, more than --max-tokens 20" and batches == []


def test_invalid_utf8_gets_a_note_with_its_position():
    outputs, _ = fill(b"a_", b"b\xff_", b"c_")
    assert [a.note for a in outputs] == ["", "not UTF-8 at byte 2", ""]


def test_byte_order_mark_is_not_part_of_the_first_line():
    outputs, _ = fill(b"\xef\xbb\xbfa_\n")
    assert outputs[0].text == "a_"


def test_fill_lines_yields_nothing_without_lines():
    assert fill() == ([], [])
