import io
import json

from rich.console import Console

from toolkit.data.tokenizers.vocabulary import append_special
from toolkit.generation.fill_mask import FillMaskOutput
from toolkit.generation.output import FillMaskConsoleWriter, FillMaskJsonWriter, FillMaskTsvWriter

START = "\N{LOWER ONE EIGHTH BLOCK}"
READABLE = append_special([START + "cat", "s", "."], unk=2).display_symbol
GAP = [(START + "cat", 0.75), ("s", 0.125)]
ANSWERS = [FillMaskOutput(1, "A\t[MASK].", [GAP], ""), FillMaskOutput(2, "", [], "empty")]


def test_json_lines_hold_every_probability_and_the_note():
    out = io.StringIO()
    FillMaskJsonWriter(out).write(ANSWERS)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["masks"] == [
        [{"token": START + "cat", "probability": 0.75}, {"token": "s", "probability": 0.125}]
    ]
    assert (second["line"], second["masks"], second["note"]) == (2, [], "empty")


def test_a_pipe_gets_one_line_for_each_line():
    out = io.StringIO()
    FillMaskTsvWriter(out).write(ANSWERS)
    assert out.getvalue() == f"A\\t[MASK].\t{START}cat 0.7500 s 0.1250\n\t# empty\n"


def test_people_see_the_candidates_of_each_gap_below_the_text():
    out = io.StringIO()
    two = FillMaskOutput(10, "x" * 100, [GAP, [(START + "on", 0.5), (".", 0.25)]], "")
    FillMaskConsoleWriter(Console(file=out, width=20), READABLE).write([*ANSWERS, two])
    assert out.getvalue().splitlines() == [
        " 1  A   [MASK].",
        "    cat 75.0%  -s 12.5%",
        " 2  ",
        "    (empty)",
        "10  " + "x" * 100,
        "    cat 75.0%  -s 12.5%",
        "    on 50.0%   . 25.0%",
    ]
