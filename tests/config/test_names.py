import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.load import bootstrap_options, index_by_path, resolve_components
from toolkit.config.names import RESERVED_NAMES, find_option
from toolkit.config.options import Option
from toolkit.config.sources import OptionValue


def option(path):
    return Option(path, int, False, False, 0, "", ",", False)


OPTIONS = index_by_path(
    map(
        option, ["arch.width", "arch.dropout", "task.dropout", "data.max_tokens", "task.max_tokens"]
    )
)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("arch.dropout", "arch.dropout"),
        ("width", "arch.width"),
        ("max_tokens", "data.max_tokens"),
    ],
)
def test_an_option_is_called_by_its_path_its_last_part_or_a_reserved_name(name, path):
    assert find_option(name, OPTIONS).path == path


def test_an_ambiguous_last_part_is_answered_with_the_full_names():
    expected = "--dropout must name one option, but may be --arch.dropout or --task.dropout"
    with pytest.raises(ToolkitError, match=expected):
        find_option("dropout", OPTIONS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("widthh", "--width"),
        ("max_token", "--max-tokens"),
        ("arch.widthh", "--arch.width"),
        ("model.width", "--arch.width"),
    ],
)
def test_an_unknown_flag_is_answered_with_the_nearest_known_one(name, hint):
    with pytest.raises(ToolkitError, match=rf"no option is called --\S+\. Did you mean {hint}\?"):
        find_option(name, OPTIONS)


def test_nothing_near_is_no_hint():
    with pytest.raises(ToolkitError, match=r"no option is called --zzzz. See --help."):
        find_option("zzzz", OPTIONS)


def test_an_unknown_key_of_a_file_is_answered_with_a_path():
    expected = r"no option is called max_tokens2 \(f.yaml\). Did you mean data.max_tokens\?"
    with pytest.raises(ToolkitError, match=expected):
        find_option("max_tokens2", {"data.max_tokens": option("data.max_tokens")}, origin="f.yaml")


def test_a_reserved_name_that_the_chosen_component_lacks_is_told():
    expected = "--warmup-updates must be an option of the chosen lr_scheduler, but that has no"
    with pytest.raises(ToolkitError, match=expected):
        find_option("warmup_updates", {"lr_scheduler.name": option("lr_scheduler.name")})


def test_every_reserved_name_stands_for_an_option(train):
    named = {
        "arch.name": OptionValue("composite_bert_tiny", ""),
        "task.name": OptionValue("mlm", ""),
    }
    options = index_by_path(resolve_components(named, train).options)
    assert set(RESERVED_NAMES.values()) <= set(options)
    assert set(bootstrap_options(train)) >= {
        "arch",
        "task",
        "criterion",
        "optimizer",
        "lr_scheduler",
        "help",
    }
