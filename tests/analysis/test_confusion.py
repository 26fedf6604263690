import json

import pytest

from toolkit.analysis.confusion import list_mistakes, read_confusions
from toolkit.cli.plot import main
from toolkit.common.errors import ToolkitError

EVENT = {
    "event": "confusion", "checkpoint": "run", "subset": "test", "predicted": ["NOUN", "VERB"],
    "true": ["NOUN", "VERB", "(unseen)"], "counts": [[5, 1], [2, 3], [4, 0]],
}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"event": "valid", "loss": 1}) + "\n" + json.dumps(EVENT) + "\n")
    return path


def test_mistakes_are_listed_by_frequency(file):
    [table] = read_confusions(file)
    assert list_mistakes(table) == [
        ("(unseen)", "NOUN", 4),
        ("VERB", "NOUN", 2),
        ("NOUN", "VERB", 1),
    ]


def test_plot_confusion_writes_an_image_and_json(file, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    image, numbers = tmp_path / "confusion.png", tmp_path / "numbers.jsonl"
    words = ["confusion", str(file), str(file), "--output", str(image), "--json", str(numbers)]
    assert main(words) == 0
    assert image.read_bytes().startswith(b"\x89PNG")
    first, *others = map(json.loads, numbers.read_text().splitlines())
    assert first["title"] == "run test" and len(others) == 6
    assert "run test" in (printed := capsys.readouterr().out) and "VERB" in printed


def test_plot_confusion_draws_the_tags_of_currency_and_formulas(file, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    text = file.read_text().replace("VERB", "$$").replace("NOUN", "$")
    file.write_text(text)
    image = tmp_path / "confusion.svg"
    assert main(["confusion", str(file), "--output", str(image), "--title", "$x_1"]) == 0
    assert image.exists() and "$$" in capsys.readouterr().out


MATRIX = (
    '{"event": "confusion", "checkpoint": "a", "subset": "b", "true": ["N", "V"], '
    '"predicted": ["N", "V"], "counts": %s}'
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("no json\n", "must hold one JSON object per line, but line 1 is 'no json'"),
        ('{"event": "valid"}\n', "must contain a confusion matrix, but does not"),
        ('{"event": "confusion"}\n', "missing required field checkpoint. Name a file"),
        (MATRIX % "[[1, 2], [3]]", "counts: must have a row for each true class"),
        (MATRIX % f"[[1, 2], [3, {10**30}]]", "counts"),
    ],
)
def test_read_confusions_rejects_other_files(tmp_path, text, complaint):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ToolkitError, match=complaint):
        read_confusions(tmp_path / "a.jsonl")
