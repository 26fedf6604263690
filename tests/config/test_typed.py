import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.options import list_options
from toolkit.config.sections import DataConfig
from toolkit.config.values import OptionValue, build_config


def built(flat, values):
    given = {path: OptionValue(value, f"--{path}") for path, value in values.items()}
    return build_config(flat.config, list_options("", flat.config), given)


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("share", "1e-4", 1e-4),
        ("share", "3", 3.0),
        ("share", "inf", float("inf")),
        ("limit", "12", 12),
        ("limit", "none", None),
        ("shout", "yes", True),
        ("shout", "0", False),
        ("language", "no", "no"),
        ("language", "12", "12"),
        ("title", "null", "null"),
        ("title", None, None),
        ("parts", "1,2", [1, 2]),
        ("parts", ["1", 2], [1, 2]),
        ("files", "a,b", ["a,b"]),
    ],
)
def test_a_value_is_read_by_the_type_of_its_field(flat, path, text, value):
    found = getattr(built(flat, {path: text}), path)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("limit", "many", r"limit must be a whole number or none, but is 'many' \(--limit\)"),
        ("limit", "1.5", "limit must be a whole number or none, but is '1.5'"),
        ("limit", True, "limit must be a whole number or none, but is True"),
        ("share", None, "share must be a number, but is None"),
        ("shout", "perhaps", "shout must be true or false, but is 'perhaps'"),
        ("parts", "1,x", "parts must be a list, each item a whole number, but is '1,x'"),
        ("parts", None, "parts must be a list, each item a whole number, but is None"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_origin(flat, path, text, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        built(flat, {"language": "en", path: text})


def test_the_rules_of_the_config_class_hold():
    options = list_options("data", DataConfig)
    with pytest.raises(ToolkitError, match=r"data.max_tokens must be at least 1, but is 0"):
        build_config(DataConfig, options, {"data.max_tokens": OptionValue("0", "--max-tokens")})
