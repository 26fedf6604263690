import json
import math

from toolkit.common import json_files


def test_numbers_that_are_not_finite_survive_as_valid_json():
    text = json_files.dumps({"a": [math.inf, -math.inf], "b": (1, 2.5, "x", None)})
    assert json.loads(text) == {"a": ["Infinity", "-Infinity"], "b": [1, 2.5, "x", None]}
    assert json_files.loads(text)["a"] == [math.inf, -math.inf]
    assert math.isnan(json_files.loads(json_files.dumps({"x": {"y": math.nan}}))["x"]["y"])


def test_finite_numbers_are_read_back_to_the_bit():
    assert json_files.loads(json_files.dumps([0.1, 1e-300, 2**60])) == [0.1, 1e-300, 2**60]
