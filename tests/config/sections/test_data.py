import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import load
from toolkit.config.sections import DataConfig


def test_the_defaults_are_valid():
    DataConfig()


@pytest.mark.parametrize(
    ("config", "values", "complaint"),
    [
        (DataConfig, {"max_tokens": 0}, "data.max_tokens must be at least 1, but is 0. Leave it"),
        (DataConfig, {"batch_size": -1}, "data.batch_size must be at least 1, but is -1"),
        (DataConfig, {"num_workers": -1}, "data.num_workers must not be negative"),
        (DataConfig, {"timeout_seconds": -1}, "data.timeout_seconds must not be negative"),
        (DataConfig, {"dirs": ["a"], "weights": [0.0]}, "data.weights must be numbers above 0"),
        (DataConfig, {"dirs": ["a", "b"], "weights": [2.0]}, "there are 1 for 2. Shards of one"),
    ],
)
def test_a_value_out_of_range_names_its_path_and_the_rule(config, values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        config(**values)


def test_weights_are_given_as_one_word():
    words = ["a", "b:c", "--arch", "bert_tiny", "--task", "mlm", "--data.weights", "2,0.5"]
    data = load(words, TRAIN).config.data
    assert (data.dirs, data.weights) == (["a", "b:c"], [2.0, 0.5])
