import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.yaml_files import read_yaml


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


def test_yaml_null_is_none_unless_quoted(read):
    assert read("{a: null, b: ~, c: 'null', d: '', e: }") == {
        "a": None,
        "b": None,
        "c": "null",
        "d": "",
        "e": None,
    }


def test_empty_yaml_file_sets_nothing(read):
    assert read("") == {} and read("# only a comment\n") == {}


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!python/name:os.system"])
def test_yaml_rejects_python_tags_and_runs_nothing(read, tag, tmp_path):
    with pytest.raises(ToolkitError, match=r"must name a YAML file, but .*line 1: could not deter"):
        read(f"arch: {tag} ['touch {tmp_path}/ran']")
    assert not (tmp_path / "ran").exists()


def test_yaml_rejects_repeated_keys(read):
    with pytest.raises(ToolkitError, match=r"line 3: lr is given twice"):
        read("optimizer:\n  lr: 1\n  lr: 2\n")


def test_yaml_rejects_deep_nesting(read):
    with pytest.raises(ToolkitError, match=r"must name a YAML file"):
        read("[" * 1200)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [1", "line 1: expected ',' or ']'"),
        (b"\xff\xfe\xfa", "it is not UTF-8 text"),
        ("a: \0", "must name a YAML file, but .*special characters"),
        ("- a\n- b\n", "must name a file of sections such as `data:`, but .* holds a list"),
        ("just text", "holds a str"),
        ("[a, b]: c", "line 1: a key must be text"),
    ],
)
def test_invalid_configuration_file_is_reported_in_one_line(read, text, complaint):
    with pytest.raises(ToolkitError, match=complaint) as error:
        read(text)
    assert "\n" not in str(error.value)


def test_missing_file_is_a_user_error(tmp_path):
    with pytest.raises(
        ToolkitError, match=r"Cannot read --config .*none.yaml: No such file.* Check"
    ):
        read_yaml(str(tmp_path / "none.yaml"))
    with pytest.raises(ToolkitError, match=r"must be a regular file, but is a folder"):
        read_yaml(str(tmp_path))
