import io
import json

from rich.console import Console

from toolkit.generation.output import (
    ConsoleWriter,
    FairseqWriter,
    GeneratedText,
    GenerationOutput,
    JsonWriter,
    LineWriter,
    alignment_text,
)

HARD = GeneratedText("a dog", -0.25, [-0.5, -0.25], [[1, 0], [0, 1]])
PLAIN = GeneratedText("the dog", -1.5, [-1.0])
REPLIES = [
    GenerationOutput(9, "ein hund", [HARD, PLAIN], "a dog runs"),
    GenerationOutput(10, "", [], None, "empty"),
]


def shown(writer, *options, **named):
    out = io.StringIO()
    writer(out, *options, **named).write(REPLIES)
    return out.getvalue().splitlines()


def test_json_lines_hold_everything():
    first, second = map(json.loads, shown(JsonWriter))
    assert first["line"] == 9 and first["reference"] == "a dog runs"
    assert first["hypotheses"][0] == HARD._asdict()
    assert "alignment" not in first["hypotheses"][1]
    assert second == {"line": 10, "source": "", "hypotheses": [], "note": "empty"}


def test_aligned_lines_are_those_of_fairseq():
    assert shown(FairseqWriter) == [
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


def test_a_pipe_gets_what_was_written_line_by_line():
    one = [GenerationOutput(1, "x", [PLAIN]), GenerationOutput(2, "", [], note="empty")]
    out = io.StringIO()
    LineWriter(out, scores=False).write(one)
    assert out.getvalue() == "the dog\n\n"
    assert shown(LineWriter, scores=True)[1:] == ["9\t-1.5000\tthe dog", "10\t\t"]


def test_a_line_stays_one_whatever_a_model_spells():
    one = [GenerationOutput(1, "x\ty", [GeneratedText("a\n\tb\r", -1.0, [-1.0])])]
    out, beside = io.StringIO(), io.StringIO()
    LineWriter(out, scores=True).write(one)
    FairseqWriter(beside).write(one)
    assert out.getvalue() == "1\t-1.0000\ta  b \n"
    assert beside.getvalue() == "S-1\tx y\nH-1\t-1.000000\ta  b \nP-1\t-1.0000\n"


def test_people_see_each_line_and_what_was_written():
    out = io.StringIO()
    ConsoleWriter(Console(file=out, width=30)).write(REPLIES)
    assert out.getvalue().splitlines() == [
        " 9  ein hund",
        "    reference  a dog runs",
        "      -0.2500  a dog",
        "               1-0 0-1",
        "      -1.5000  the dog",
        "10  ",
        "    (empty)",
    ]


def test_shares_are_shown_symbol_by_symbol():
    assert (
        alignment_text(GeneratedText("x", 0.0, [], [[0.25, 0.75], [1.0, 0.0]]))
        == "0.250,0.750 1.000,0.000"
    )
