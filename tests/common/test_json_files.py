import json
import math
from dataclasses import dataclass

import pytest

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, read_json, write_json


def test_json_keeps_non_finite_numbers_and_stays_valid():
    text = json_files.dumps({"a": [math.inf, -math.inf], "b": (1, 2.5, "x", None)})
    assert json.loads(text) == {"a": ["Infinity", "-Infinity"], "b": [1, 2.5, "x", None]}
    assert json_files.loads(text)["a"] == [math.inf, -math.inf]
    assert math.isnan(json_files.loads(json_files.dumps({"x": {"y": math.nan}}))["x"]["y"])


def test_read_json_rejects_a_large_file(tmp_path):
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ToolkitError, match=r"at most 16,777,216 bytes, but has 1,099,511,627,776"):
        read_json(tmp_path / "a", dict, "")


def test_read_json_rejects_deep_nesting(tmp_path):
    for depth in (101, 100_000):
        (tmp_path / "a").write_text("[" * depth + "]" * depth)
        with pytest.raises(ToolkitError, match=r"a: nested too deeply\. Copy it again\."):
            read_json(tmp_path / "a", list[object], "Copy it again.")


@dataclass
class Point:
    x: Count
    names: dict[str, list[str]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"x": -1, "names": {}}', "x: expected int >= 0"),
        ('{"x": true, "names": {}}', "x: expected int, found bool"),
        ('{"x": 1' + "0" * 99 + ', "names": {}}', "x: expected int <= 9223372036854775807"),
        ('{"x": 1' + "0" * 5000 + ', "names": {}}', "found an integer of thousands of digits"),
        ('{"x": 1, "names": {"a": [3]}}', r"names\[...\]\[0\]: expected str, found int"),
        ('{"x": 1}', "object missing required field names"),
        ("[]", "expected object, found array"),
        ('{"x": 1\n, 2}', ".* at line 2 column 3"),
        ("\xff", "must be UTF-8 text"),
    ],
)
def test_read_json_names_the_file_the_field_and_the_remedy(tmp_path, text, problem):
    (tmp_path / "a").write_bytes(text.encode("latin1"))
    with pytest.raises(ToolkitError, match=rf"a:? {problem}.*\. Copy it again\.$"):
        read_json(tmp_path / "a", Point, "Copy it again.")


def test_read_json_ignores_additional_fields(tmp_path):
    (tmp_path / "a").write_text('{"x": 1, "names": {"\\ud83d\\ude00": []}, "y": [{}]}')
    assert read_json(tmp_path / "a", Point, "") == Point(1, {"\N{GRINNING FACE}": []})


def test_write_json_replaces_a_file_in_one_step(tmp_path):
    write_json(tmp_path / "a", {"x": [1, math.nan]}, indent=1)
    assert (tmp_path / "a").read_text() == '{\n "x": [\n  1,\n  "NaN"\n ]\n}\n'
    with pytest.raises(TypeError):
        write_json(tmp_path / "a", {"x": object()})
    assert [path.name for path in tmp_path.iterdir()] == ["a"] and (tmp_path / "a").stat().st_size
