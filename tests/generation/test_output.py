import io
from functools import partial

from toolkit.generation.output import (
    GeneratedText,
    GenerationOutput,
    write_lines,
)

ALIGNED = GeneratedText("a dog", -0.25, [-0.5, -0.25], [[1, 0], [0, 1]])
PLAIN = GeneratedText("the dog", -1.5, [-1.0])
GENERATED = [
    GenerationOutput(9, "ein hund", [ALIGNED, PLAIN], "a dog runs"),
    GenerationOutput(10, "", note="empty"),
]


def write(records, to_text):
    file = io.StringIO()
    write_lines(file, to_text, records)
    return file.getvalue().splitlines()


def test_generation_tsv_has_one_line_per_hypothesis():
    records = [GenerationOutput(1, "x", [PLAIN]), GenerationOutput(2, "", note="empty")]
    assert write(records, partial(GenerationOutput.to_tsv, scores=False)) == ["the dog", ""]
    lines = write(GENERATED, partial(GenerationOutput.to_tsv, scores=True))
    assert lines[1:] == ["9\t-1.5000\tthe dog", "10\t\t"]


def test_hypotheses_stay_on_one_line_whatever_they_contain():
    record = GenerationOutput(1, "x\ty", [GeneratedText("a\n\tb\r", -1.0, [-1.0])])
    assert record.to_tsv(scores=True) == "1\t-1.0000\ta  b "
    assert record.to_fairseq() == "S-1\tx y\nH-1\t-1.000000\ta  b \nP-1\t-1.0000"


def test_soft_alignments_are_written_per_token():
    text = GeneratedText("x", 0.0, [], [[0.25, 0.75], [1.0, 0.0]])
    assert text.alignment_text == "0.250,0.750 1.000,0.000"
