from __future__ import annotations

import contextlib
import gzip
import json
import math
from typing import NamedTuple

import pytest

from toolkit.cli.generate import main
from toolkit.commands.generate import generate_outputs
from toolkit.commands.text_io import InputRecord, open_answers, open_input, read_requests
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import TranslateConfig
from toolkit.data.formats.tagging.treebanks import ConlluOptions
from toolkit.distributed import World
from toolkit.generation.generate import GenerationRequest
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.tasks.text_generation import TextGenerator

PACKED = b"one\r\n\ntwo \xff\n" * 1000


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.gz", gzip.compress(PACKED)[:-9]), ("a.xz", PACKED)],
    ids=["cut off", "xz not packed"],
)
def test_open_input_rejects_damaged_compressed_files(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    with (
        pytest.raises(ToolkitError, match=r"a\..z is truncated or damag"),
        open_input(str(path), "") as lines,
    ):
        list(lines)


class Echo(TextGenerator):
    """Generates each sentence itself."""

    def __init__(self):
        self.c = TranslateConfig(path=["run"], batch_size=2, max_tokens=100)
        self.decoder_only = False

    def encode_line(self, line):
        return GenerationRequest(0, line, [len(line)] * len(line))

    def generate(self, items):
        return [
            GenerationOutput(i.number, i.text, [GeneratedText(i.text, -0.5, [-1.0])], i.reference)
            for i in items
        ]


class Two(World):
    """One of two ranks; `received` is what the other one sends."""

    def all_gather(self, text):
        self.__dict__["sent"] = text
        received = self.__dict__.get("received", "[]")
        return [text, received] if self.rank == 0 else [received, text]


def test_two_ranks_generate_every_sentence_once_in_order():
    items = [GenerationRequest(n, "x" * (n % 4 + 1), [0] * (n % 4 + 1)) for n in range(1, 8)]
    items[2] = GenerationRequest(3, "", note="empty")
    first, second = Two(rank=0, size=2), Two(rank=1, size=2)
    with contextlib.suppress(AssertionError):  # alone it has half of the outputs
        list(generate_outputs(iter(items), Echo(), 100, second, lambda count: None))
    first.__dict__["received"] = second.__dict__["sent"]
    ((*outputs,),) = generate_outputs(iter(items), Echo(), 100, first, lambda count: None)
    assert [output.number for output in outputs] == [1, 2, 3, 4, 5, 6, 7]
    assert [output.best for output in outputs] == [item.text for item in items]
    assert outputs[2].note == "empty" and outputs[2].hypotheses == []


class Broadcast(World):
    def broadcast(self, text):
        return text


def test_read_requests_broadcasts_lines_of_the_first_rank():
    lines = [b"ab\r\n", b"", b"c\xff\n", b"defg"]
    expected = list(read_requests(iter(lines), Echo(), World(), 2))
    assert list(read_requests(iter(lines), Echo(), Broadcast(size=2), 2)) == expected
    assert [item.number for item in expected] == [1, 2, 3, 4]
    assert expected[2].note == "not UTF-8 at byte 2"


class Label(NamedTuple):
    label: str
    probability: float


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("csv", 'label,n,predicted_label,probability\n"x,""y",,a,0.2500\nz,3,,\n'),
        ("tsv", 'label\tn\tpredicted_label\tprobability\nx,"y\t\ta\t0.2500\nz\t3\t\t\n'),
        ("text", "a\t0.2500\n\t\n"),
    ],
)
def test_answers_as_a_table_keep_the_columns_of_the_input(tmp_path, kind, expected):
    good = InputRecord(1, values={"label": 'x,"y', "n": None}), Label("a", 0.25)
    malformed = InputRecord(2, problem="no label", values={"label": "z", "n": 3}), None
    path, columns = tmp_path / "out", Label._fields
    with open_answers(kind, str(path), columns, ConlluOptions("upos"), b"{}") as write:
        write([good])
        write([malformed])
    assert path.read_bytes().decode() == expected


def files(tmp_path, *contents):
    paths = [tmp_path / f"{n}.txt" for n in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return [str(path) for path in paths]


TEXT = b"a dog runs over the green field\nthe cat sleeps on the old red mat\n"


def test_score_prints_signatures(tmp_path, capsys):
    both = files(tmp_path, TEXT, TEXT.replace(b"\n", b"\r\n"))
    assert main(["score", *both, "--json", str(tmp_path / "out.jsonl")]) == 0
    bleu, chrf, ter = capsys.readouterr().out.splitlines()
    assert bleu.startswith("BLEU 100.00") and "tok:13a" in bleu
    assert chrf.startswith("chrF2 100.00") and ter.startswith("TER 0.00")
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    values = {r["name"]: r["value"] for r in records}
    assert all(map(math.isclose, values.values(), (100, 100, 0)))


def test_language_chooses_the_tokenization_of_bleu(tmp_path, capsys):
    both = files(tmp_path, *["我是一只猫。\n".encode()] * 2)
    assert main(["score", *both, "--target-lang", "zh"]) == 0
    assert "tok:zh" in capsys.readouterr().out
    assert main(["score", *both, "--eval-bleu-tokenize", "char"]) == 0
    assert "tok:char" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ((TEXT, TEXT[:32]), "Every translation needs a reference"),
        ((b"", b""), "No lines to score"),
        ((b"\xff\n", b"a\n"), ":1: expected UTF-8, found byte 0xff at column 1"),
    ],
)
def test_score_rejects_files_that_cannot_be_compared(tmp_path, capsys, contents, message):
    assert main(["score", *files(tmp_path, *contents)]) == 2
    assert message in capsys.readouterr().err
