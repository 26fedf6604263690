import io
from functools import partial

from toolkit.generation.output import (
    FillMaskOutput,
    GeneratedText,
    GenerationOutput,
    print_rows,
    write_lines,
)
from toolkit.reporting.console import Console

MASK = [("cat", 0.75), ("…s", 0.125)]
FILLED = [FillMaskOutput(1, "A\t[MASK].", [MASK]), FillMaskOutput(2, "", note="empty")]
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


def print_to_console(records, to_rows, width):
    file = io.StringIO()
    print_rows(Console(file=file, width=width), to_rows, records)
    return file.getvalue().splitlines()


def test_fill_mask_tsv_has_one_line_per_line():
    lines = write(FILLED, FillMaskOutput.to_tsv)
    assert lines == ["A\\t[MASK].\tcat 0.7500 …s 0.1250", "\t# empty"]


def test_fill_mask_console_aligns_the_candidates_of_each_mask():
    two = FillMaskOutput(10, "x" * 100, [MASK, [("on", 0.5), (".", 0.25)]])
    rows = print_to_console([*FILLED, two], FillMaskOutput.to_console, 20)
    assert rows == [
        " 1  A   [MASK].",
        "    cat 75.0%  …s 12.5%",
        " 2  ",
        "    (empty)",
        "10  " + "x" * 100,
        "    cat 75.0%  …s 12.5%",
        "    on 50.0%   . 25.0%",
    ]


def test_generation_fairseq_lines_have_the_format_of_fairseq():
    assert write(GENERATED, GenerationOutput.to_fairseq) == [
        "S-9\tein hund",
        "T-9\ta dog runs",
        "H-9\t-0.250000\ta dog",
        "P-9\t-0.5000 -0.2500",
        "A-9\t1-0 0-1",
        "H-9\t-1.500000\tthe dog",
        "P-9\t-1.0000",
        "S-10\t",
        "#-10\tempty",
    ]


def test_generation_tsv_has_one_line_per_hypothesis():
    records = [GenerationOutput(1, "x", [PLAIN]), GenerationOutput(2, "", note="empty")]
    assert write(records, partial(GenerationOutput.to_tsv, scores=False)) == ["the dog", ""]
    lines = write(GENERATED, partial(GenerationOutput.to_tsv, scores=True))
    assert lines[1:] == ["9\t-1.5000\tthe dog", "10\t\t"]


def test_hypotheses_stay_on_one_line_whatever_they_contain():
    record = GenerationOutput(1, "x\ty", [GeneratedText("a\n\tb\r", -1.0, [-1.0])])
    assert record.to_tsv(scores=True) == "1\t-1.0000\ta  b "
    assert record.to_fairseq() == "S-1\tx y\nH-1\t-1.000000\ta  b \nP-1\t-1.0000"


def test_generation_console_has_the_hypotheses_below_the_source():
    assert print_to_console(GENERATED, GenerationOutput.to_console, 30) == [
        " 9  ein hund",
        "    reference  a dog runs",
        "      -0.2500  a dog",
        "               1-0 0-1",
        "      -1.5000  the dog",
        "10  ",
        "    (empty)",
    ]


def test_soft_alignments_are_written_per_token():
    text = GeneratedText("x", 0.0, [], [[0.25, 0.75], [1.0, 0.0]])
    assert text.alignment_text == "0.250,0.750 1.000,0.000"
