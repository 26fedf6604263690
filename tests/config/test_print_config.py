import math

import pytest
import yaml

from toolkit.config.early_exit import handle_info_flags
from toolkit.config.load import load
from toolkit.config.serialize import to_yaml
from toolkit.config.sources import PlainLoader

NAMED = ["--arch", "composite_bert_small", "--task", "mlm"]
WORDS = ["data", *NAMED, "--lr", "1e-5", "--convolve", "query,key", "--fp16"]


def lines(text):
    return {line.split(":")[0].strip(): line.partition("#")[2].strip() for line in text.split("\n")}


def test_every_value_tells_where_it_comes_from(train, tmp_path):
    (tmp_path / "a.yaml").write_text("training: {seed: 3}\n")
    text = handle_info_flags(
        [*WORDS, "--config", str(tmp_path / "a.yaml"), "--print-config"], train
    )
    origins = lines(text)
    assert origins["lr"] == "--lr" and origins["dirs"] == "argument"
    assert origins["width"] == "arch composite_bert_small" and origins["radius"] == "default"
    assert origins["seed"] == str(tmp_path / "a.yaml") and origins["patience"] == "default"


def test_what_is_printed_can_be_read_back_as_a_file(train, tmp_path):
    words = [*WORDS, "--save-dir", "null", "--restore-file", "a: b # c", "--clip-norm", "inf"]
    (tmp_path / "all.yaml").write_text(handle_info_flags([*words, "--print-config"], train))
    assert load(["--config", str(tmp_path / "all.yaml")], train) == load(words, train)


def test_a_command_without_sections_prints_its_fields(flat):
    assert "share: 0.25   # --share\n" in handle_info_flags(
        ["--share", ".25", "--print-config"], flat
    )


@pytest.mark.parametrize(
    "text",
    ["", "no", "null", "~", "a b", "- x", "'", "{a}", "#c", "1e3", " x ", "a\nb", "é", "a, b"],
)
def test_text_is_spelled_so_that_it_is_read_back(text):
    assert yaml.load(f"a: {to_yaml(text)}", PlainLoader) == {"a": text}
    assert yaml.load(f"a: {to_yaml([text, 'x'])}", PlainLoader) == {"a": [text, "x"]}


def test_numbers_and_none_are_spelled_plainly():
    assert [to_yaml(x) for x in (None, True, 3, 0.1 + 0.2, 1e-5, math.inf, [])] == [
        "null",
        "true",
        "3",
        "0.30000000000000004",
        "1e-05",
        "inf",
        "[]",
    ]
