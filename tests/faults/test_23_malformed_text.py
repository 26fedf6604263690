"""Damaged or unusual text: reported by file and line, or kept; never a traceback."""

from importlib.util import find_spec

import numpy as np
import pytest

from toolkit.cli.preprocess import main
from toolkit.data.storage.data_folder import DataFolder

LINE = "the old house by the river\n"
missing = pytest.mark.skipif(find_spec("tokenizers") is None, reason="tokenizers is missing")
TOKENIZERS = ["words", "sentencepiece", pytest.param("wordpiece", marks=missing)]


@pytest.fixture
def preprocess(tmp_path, capsys):
    """Runs the command on a file of these bytes; returns exit code, last line and the file."""

    def run(content, *options, name="text.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        common = ["--destdir", str(tmp_path / "data"), "--workers", "1", "--vocab-size", "40"]
        code = main(["--trainpref", str(path), "--character-coverage", "1", *common, *options])
        return code, capsys.readouterr().err.strip().split("\n")[-1], path

    return run


def lines_of(folder):
    opened = DataFolder.open(folder)
    (part,) = opened.split("train").column("tokens").parts
    items = np.split(part.values, part.offsets[1:-1])
    return [opened.tokenizer.decode(ids.tolist()) for ids in items]


REFUSED = {
    "nul": (LINE * 3 + "a\0b\n", ":4: found a NUL byte"),
    "latin1": (
        (LINE + "caf\xe9\n").encode("latin1"),
        ":2: expected UTF-8, found byte 0xe9",
    ),
    "utf16": (LINE.encode("utf-16"), ":1: expected UTF-8.* with iconv -f utf-16 -t utf-8"),
    "surrogate": (LINE.encode() + b"\xed\xa0\x80\n", ":2: expected UTF-8, found byte 0xed"),
    "cut character": (LINE.encode() + b"caf\xc3", ":2: expected UTF-8, found byte 0xc3"),
    "long line": (
        LINE + "x" * 1_000_000 + "\n",
        ":2: expected at most 500000 bytes in a line, found",
    ),
    "empty": ("", " must hold text, but is empty"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_invalid_text_is_reported_by_file_and_line_and_leaves_no_output(
    preprocess, tmp_path, fault
):
    content, message = REFUSED[fault]
    code, stderr, path = preprocess(content, "--tokenizer", "words")
    assert code == 2
    assert stderr.startswith(f"toolkit-preprocess: {path}{message.split('.*')[0]}")
    assert stderr.endswith(".") and message.split(".*")[-1] in stderr
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


STRANGE = {
    "byte order mark": ("\ufeffthe old\nhouse\n", ["the old", "house"]),
    "line ends of Windows": ("the old\r\nhouse\r\n", ["the old", "house"]),
    "no last line end": ("the old\nhouse", ["the old", "house"]),
    "line separators": ("the\u2028old\u0085red\u2029house\n", ["the old red house"]),
    "form feeds and tabs": ("the\fold\tred\vhouse\n", ["the old red house"]),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_unusual_but_harmless_text_is_kept(preprocess, tmp_path, strange):
    content, want = STRANGE[strange]
    code, _, _ = preprocess(content, "--tokenizer", "words")
    assert (code, lines_of(tmp_path / "data")) == (0, want)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_word_of_a_million_letters_is_kept_with_a_larger_line_limit(
    preprocess, tmp_path, tokenizer
):
    text = LINE + "x" * 1_000_000 + " end\n" + LINE
    code, _, _ = preprocess(text, "--tokenizer", tokenizer, "--max-line-bytes", "2000000")
    found = lines_of(tmp_path / "data")
    assert (code, len(found)) == (0, 3)
    assert found[1].endswith("end")
    assert tokenizer == "wordpiece" or len(found[1]) == 1_000_004  # there it is one [UNK]
