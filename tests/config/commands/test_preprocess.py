import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import FORMATS
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.load import load

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
        ({"trainpref": ""}, "no input: give --trainpref, --validpref or --testpref"),
        ({"testpref": ",,"}, "testpref must name files between its commas, but is ',,'"),
        ({"format": "conll"}, r"unknown data format 'conll'. Did you mean 'conllu'\?"),
    ],
)
def test_common_options_are_checked(options, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        build_format(**options)


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


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("text", "tag"),
        ("conllu", "segment_by"),
        ("glue", "text_columns"),
        ("squad", "max_item_tokens"),
    ],
)
def test_option_of_another_format_is_rejected(form, option):
    flag = f"--{option.replace('_', '-')}"
    with pytest.raises(ToolkitError, match=f"{flag} requires --format "):
        load(["--trainpref", "a", "--format", form, flag, "1"], PREPROCESS)


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
