import json
import math

from toolkit.common import strict_json


def test_numbers_that_are_not_finite_survive_as_valid_json():
    text = strict_json.dumps({"a": [math.inf, -math.inf], "b": (1, 2.5, "x", None)})
    assert json.loads(text) == {"a": ["Infinity", "-Infinity"], "b": [1, 2.5, "x", None]}
    assert strict_json.loads(text)["a"] == [math.inf, -math.inf]
    assert math.isnan(strict_json.loads(strict_json.dumps({"x": {"y": math.nan}}))["x"]["y"])


def test_finite_numbers_are_read_back_to_the_bit():
    assert strict_json.loads(strict_json.dumps([0.1, 1e-300, 2**60])) == [0.1, 1e-300, 2**60]
