import json
import math
import os

import pytest

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json, read_text


def test_json_keeps_non_finite_numbers_and_stays_valid():
    text = json_files.dumps({"a": [math.inf, -math.inf], "b": (1, 2.5, "x", None)})
    assert json.loads(text) == {"a": ["Infinity", "-Infinity"], "b": [1, 2.5, "x", None]}
    assert json_files.loads(text)["a"] == [math.inf, -math.inf]
    assert math.isnan(json_files.loads(json_files.dumps({"x": {"y": math.nan}}))["x"]["y"])


def test_json_keeps_finite_numbers_to_the_bit():
    assert json_files.loads(json_files.dumps([0.1, 1e-300, 2**60])) == [0.1, 1e-300, 2**60]


def test_read_json_reads_a_small_file(tmp_path):
    (tmp_path / "a").write_text('{"b": "\N{LATIN SMALL LETTER E WITH ACUTE}"}', "utf-8")
    assert read_json(tmp_path / "a") == {"b": "\N{LATIN SMALL LETTER E WITH ACUTE}"}


def test_read_text_rejects_a_large_file(tmp_path):
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ToolkitError, match=r"at most 16,777,216 bytes, but has 1,099,511,627,776"):
        read_text(tmp_path / "a")


def test_read_text_rejects_a_pipe_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(
        ToolkitError, match=r"must be a regular file, but is a .*\. Correct the path"
    ):
        read_text(tmp_path / "a")


def test_read_json_rejects_deep_nesting(tmp_path):
    (tmp_path / "a").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "a")
