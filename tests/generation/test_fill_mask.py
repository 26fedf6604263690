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


def test_batches_have_lines_of_similar_length_within_max_tokens():
    lines = [b"a_", b"bbbbbbbbb_", b"c_", b"ddddddddd_", b"e_", b"fffffffff_"]
    _, batches = fill(*lines, max_tokens=20)
    assert batches == [["a_", "c_", "e_"], ["bbbbbbbbb_", "ddddddddd_"], ["fffffffff_"]]


def test_overlong_line_gets_a_note():
    outputs, batches = fill(b"a" * 30 + b"_", max_tokens=20)
    assert outputs[0].note == "31 tokens, more than --max-tokens 20" and batches == []
