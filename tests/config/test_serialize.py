import json
import math

import pytest
import yaml

from toolkit.config.help import handle_info_flags
from toolkit.config.load import compose, load
from toolkit.config.serialize import diff_configs, from_dict, list_differences, to_dict, to_yaml
from toolkit.config.yaml_files import PlainLoader

NAMED = {"arch": "composite_bert_tiny", "task": "mlm"}


def test_run_survives_json():
    run = compose({**NAMED, "convolve": ["query"], "lr": 1e-5, "max_tokens": 7, "dirs": ["a,b"]})
    assert from_dict(json.loads(json.dumps(to_dict(run)))) == run


def test_missing_field_gets_its_default():
    saved = to_dict(compose({**NAMED, "seed": 5, "patience": 3}))
    del saved["training"]["patience"]
    found = from_dict(saved)
    assert (found.training.seed, found.training.patience) == (5, 0)


FLAGS = ["--arch", "composite_bert_small", "--task", "mlm"]
WORDS = ["data", *FLAGS, "--lr", "1e-5", "--convolve", "query,key", "--fp16"]


def lines(text):
    return {line.split(":")[0].strip(): line.partition("#")[2].strip() for line in text.split("\n")}


def test_print_config_shows_the_origin_of_every_value(train, tmp_path):
    (tmp_path / "a.yaml").write_text("training: {seed: 3}\n")
    text = handle_info_flags(
        [*WORDS, "--config", str(tmp_path / "a.yaml"), "--print-config"], train
    )
    origins = lines(text)
    assert origins["lr"] == "--lr" and origins["dirs"] == "argument"
    assert origins["width"] == "arch composite_bert_small" and origins["radius"] == "default"
    assert origins["seed"] == str(tmp_path / "a.yaml") and origins["patience"] == "default"


def test_print_config_can_be_read_back_as_a_file(train, tmp_path):
    words = [*WORDS, "--save-dir", "null", "--restore-file", "a: b # c", "--clip-norm", "1e-5"]
    (tmp_path / "all.yaml").write_text(handle_info_flags([*words, "--print-config"], train))
    path = str(tmp_path / "all.yaml")
    assert load(["--config", path], train).config == load(words, train).config


@pytest.mark.parametrize(
    "text",
    ["", "no", "null", "~", "a b", "- x", "'", "{a}", "#c", "1e3", " x ", "a\nb", "é", "a, b"],
)
def test_to_yaml_quotes_text_so_that_it_is_read_back(text):
    assert yaml.load(f"a: {to_yaml(text)}", PlainLoader) == {"a": text}
    assert yaml.load(f"a: {to_yaml([text, 'x'])}", PlainLoader) == {"a": [text, "x"]}


def test_to_yaml_leaves_numbers_and_none_unquoted():
    assert [to_yaml(x) for x in (None, True, 3, 0.1 + 0.2, 1e-5, math.inf, [])] == [
        "null",
        "true",
        "3",
        "0.30000000000000004",
        "1e-05",
        "inf",
        "[]",
    ]


def test_diff_configs_lists_the_options_that_differ():
    one, other = (to_dict(compose({**NAMED, "seed": seed, "clip_norm": 0.1})) for seed in (1, 2))
    assert diff_configs(one, one) == {}
    assert diff_configs(one, other) == {"training.seed": (1, 2)}
    assert list_differences(diff_configs(one, other)) == ["training.seed was 1 and is now 2"]
    del other["training"]["seed"]
    assert diff_configs(one, other) == {"training.seed": (1, None)}
