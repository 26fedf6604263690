"""Options of commands: what they imply, and how their values are read."""

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import FORMATS
from toolkit.config.commands.generate import (
    SearchConfig,
)
from toolkit.config.commands.plot import (
    CurveConfig,
)
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.train import TRAIN, SweepConfig, ValueRange
from toolkit.config.load import load


@pytest.mark.parametrize(
    "options",
    [{"sampling": True}, {"sampling_topk": 4}, {"sampling_topp": 0.9}, {"temperature": 2}],
)
def test_options_of_sampling_imply_it(options):
    assert SearchConfig(**options).samples and not SearchConfig().samples


RUN = {"runs": ["run"]}


@pytest.mark.parametrize(
    ("size", "inches"),
    [("", None), ("column", (3.25, None)), ("6.5", (6.5, None)), ("6.5x3", (6.5, 3.0))],
)
def test_size_is_read_in_inches(size, inches):
    assert CurveConfig(**RUN, size=size).inches == inches


LANGUAGES = {"source_lang": "de", "target_lang": "en"}
TAGGED = {"format": "conllu"}


def build_format(**options):
    """The format of a command line, which checks its options together with the others."""
    config = preprocess_config(**{"trainpref": "a.txt", **options})
    return FORMATS[config.format.name].factory(config.format.config, config)


def test_input_may_be_several_words_as_a_shell_expands_a_pattern():
    words = ["--trainpref", "a.txt", "b.txt,c.txt", "--validpref", "d.txt", "--destdir", "data"]
    inputs = load(words, PREPROCESS).config.inputs
    assert inputs == {"train": "a.txt,b.txt,c.txt", "valid": "d.txt"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"valid_fraction": 0.5, "test_fraction": 0.5}, "must leave text to train on"),
        (
            {"valid_fraction": 0.1, "validpref": "b"},
            "--valid-fraction cannot be combined with --validpref",
        ),
        ({**TAGGED, "srcdict": "d.txt"}, "cannot be combined with tagged text"),
        ({**TAGGED, "lowercase": True}, "cannot be combined with tagged text"),
        ({"format": "parallel"}, "parallel text requires --source-lang and --target-lang"),
        ({"source_lang": "de"}, "parallel text requires --source-lang and --target-lang"),
        ({"source_lang": "de", "target_lang": "de"}, "must differ, but both are de"),
        ({**LANGUAGES, "overlength": "split", "max_item_tokens": 5}, "error, skip, truncate, but"),
    ],
)
def test_options_of_a_format_are_checked(options, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        build_format(**options)


def test_source_and_target_lang_imply_parallel():
    words = ["--trainpref", "a", "--source-lang", "de", "--target-lang", "en"]
    config = load(words, PREPROCESS).config
    assert config.format.name == "parallel" and config.format.config.target_lang == "en"
    with pytest.raises(ToolkitError, match="--source-lang requires --format parallel"):
        load([*words, "--format", "squad"], PREPROCESS)


def test_file_may_select_the_format_and_its_options(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("trainpref: a\nformat: {name: conllu, tag: xpos}\n")
    config = load(["--config", str(file), "--tag", "Number"], PREPROCESS).config
    assert config.format.name == "conllu" and config.format.config.tag == "Number"
    file.write_text("trainpref: a\nformat: {source_lang: de, target_lang: en}\n")
    assert load(["--config", str(file)], PREPROCESS).config.format.name == "parallel"


def test_grid_names_options_and_their_values():
    c = SweepConfig(grid=["arch.fixed=true,false", "--lr=1e-4"])
    assert c.parse_grid() == {"arch.fixed": ["true", "false"], "lr": ["1e-4"]}


def test_grid_separates_values_with_commas_by_semicolons():
    c = SweepConfig(grid=["arch.convolve=query,key;value"])
    assert c.parse_grid() == {"arch.convolve": ["query,key", "value"]}


LR = "lr=1e-5..1e-3"


def test_ranges_are_read_as_numbers():
    c = SweepConfig(grid=[LR, "radius=2..16", "x=a..b,../c"], trials=2)
    assert c.ranges() == {
        "lr": ValueRange(1e-5, 1e-3, whole=False),
        "radius": ValueRange(2.0, 16.0, whole=True),
    }


def test_corpus_weights_are_parsed_from_one_word():
    words = ["a", "b:c", "--arch", "bert_tiny", "--task", "mlm", "--data.weights", "2,0.5"]
    data = load(words, TRAIN).config.data
    assert (data.dirs, data.weights) == (["a", "b:c"], [2.0, 0.5])
