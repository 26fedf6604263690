import json
import math

import pytest

from toolkit.cli.generate import main


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
