import gzip
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


def test_score_keeps_carriage_returns_inside_lines(tmp_path, capsys):
    assert main(["score", *files(tmp_path, TEXT, TEXT.replace(b"runs ", b"runs\r"))]) == 0
    assert capsys.readouterr().out.startswith("BLEU 100.00")


def test_score_reads_compressed_files(tmp_path, capsys):
    [plain] = files(tmp_path, TEXT)
    packed = tmp_path / "true.gz"
    packed.write_bytes(gzip.compress(TEXT.replace(b"\n", b"\r\n")))
    assert main(["score", plain, str(packed)]) == 0
    assert capsys.readouterr().out.startswith("BLEU 100.00")
    for damaged in (gzip.compress(TEXT)[:-9], TEXT):
        packed.write_bytes(damaged)
        assert main(["score", plain, str(packed)]) == 2
        assert "is truncated or damaged" in capsys.readouterr().err


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


def test_score_names_a_missing_file(tmp_path, capsys):
    assert main(["score", str(tmp_path / "no"), str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
