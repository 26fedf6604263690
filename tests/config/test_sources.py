import re
from importlib.resources import files
from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.train import TRAIN
from toolkit.config.help import handle_info_flags
from toolkit.config.load import load
from toolkit.config.yaml_files import list_recipes, read_yaml


@pytest.fixture
def read(tmp_path):
    def from_text(text):
        file = tmp_path / "run.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_yaml(str(file))

    return from_text


def test_yaml_values_stay_text(read):
    text = "a: {no: no, on: 1e-4, off: 0x10, date: 2024-01-01, long: 1_000}"
    assert read(text)["a"] == {
        "no": "no",
        "on": "1e-4",
        "off": "0x10",
        "date": "2024-01-01",
        "long": "1_000",
    }


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!python/name:os.system"])
def test_yaml_rejects_python_tags_and_runs_nothing(read, tag, tmp_path):
    with pytest.raises(ToolkitError, match=r"must name a YAML file, but .*line 1: could not deter"):
        read(f"arch: {tag} ['touch {tmp_path}/ran']")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"\xff\xfe\xfa", "must be UTF-8 text"),
        ("a: \0", "must name a YAML file, but .*special characters"),
        ("- a\n- b\n", "must name a file of sections such as `data:`, but .* holds a list"),
        ("[a, b]: c", "line 1: a key must be text"),
    ],
)
def test_invalid_configuration_file_is_reported_in_one_line(read, text, complaint):
    with pytest.raises(ToolkitError, match=complaint) as error:
        read(text)
    assert "\n" not in str(error.value)


def test_missing_file_is_a_user_error(tmp_path):
    with pytest.raises(
        ToolkitError, match=r"none.yaml must be readable, but is not: No such file.* Check"
    ):
        read_yaml(str(tmp_path / "none.yaml"))
    with pytest.raises(ToolkitError, match=r"must be a regular file, but is a folder"):
        read_yaml(str(tmp_path))


PROJECT = Path(__file__).resolve().parents[2]


def test_recipes_are_files_of_the_package():
    folder = PROJECT / "toolkit" / "recipes"
    assert {path.name for path in folder.iterdir()} == {f"{name}.yaml" for name in list_recipes()}
    assert (files("toolkit") / "recipes" / "taco-base.yaml").is_file()


@pytest.mark.parametrize("name", list_recipes())
def test_recipe_is_a_complete_run_but_for_data_and_architecture(name):
    text = (PROJECT / "toolkit" / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    first = ["--config", "recipe:jiang2020-small"] if name.endswith("-512") else []
    named = [] if first or "\narch:" in text else ["--arch", "bert_tiny"]
    named = ["--arch", "conv_san_ud"] if name == "dufter2020" else named
    run = load(["data", *first, "--config", f"recipe:{name}", *named], TRAIN).config
    assert run.training.max_update or run.training.max_epoch or run.training.max_words
    assert run.data.batch_size or run.data.max_tokens


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("babylm-strict-small", "layers: 8, width: 480, masking: whole_word, mask_rate: 0.15"),
        ("elc-bert-small", "weighted_residuals: true, tokens_per_sample: 128@0,512@9epochs"),
        ("gpt-bert-small", "mask_rate: 0.3:0.15, causal_ratio: 0.0625, z_loss: 0.0001, eps: 1e-08"),
        ("gpt-bert-small", "tokens_per_sample: 128@0,256@7epochs,512@9epochs, norm_epsilon: 1e-05"),
        ("amlm", "masking: exact, mask_rate: 0.4:0.15, adaptive_interval: 200"),
    ],
)
def test_recipe_for_babylm_has_the_published_settings(name, settings):
    text = handle_info_flags(["data", "--config", f"recipe:{name}", "--print-config"], TRAIN)
    printed = {line.split("  #")[0].strip() for line in text.replace("'", "").splitlines()}
    assert set(settings.split(", ")) <= printed


def test_unknown_recipe_suggests_the_nearest_one():
    expected = r"^no recipe is called 'taco-bas'. Did you mean 'taco-base'\? Known: amlm, babylm-"
    with pytest.raises(ToolkitError, match=expected):
        load(["data", "--config", "recipe:taco-bas"], TRAIN)


@pytest.mark.parametrize("name", ["../../pyproject", "/etc/passwd", "recipe:taco-base", ""])
def test_recipe_cannot_name_another_file(name):
    with pytest.raises(ToolkitError, match=r"^no recipe is called"):
        load(["data", "--config", f"recipe:{name}"], TRAIN)


def test_recipes_are_listed_with_their_summaries_by_commands_that_describe_runs():
    text = handle_info_flags(["--list", "recipes"], TRAIN)
    assert re.search(r"^taco-base +TACO, Table 7: pre-training of the base size", text, re.M)
    with pytest.raises(ToolkitError, match=r"^--list must be one of formats, but is 'recipes'.$"):
        handle_info_flags(["--list", "recipes"], PREPROCESS)
    with pytest.raises(ToolkitError, match=r"positions, recipes, but is 'recipe'"):
        handle_info_flags(["--list", "recipe"], TRAIN)
