import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import load
from toolkit.config.sections import DataConfig, TrainingConfig


@pytest.mark.parametrize(
    ("config", "values", "message"),
    [
        (DataConfig, {"dirs": ["a", "b"], "weights": [2.0]}, "there are 1 for 2. Shards of one"),
        (
            TrainingConfig,
            {"fp16": True, "bf16": True},
            "precision must be one, but is fp16 and bf16",
        ),
        (TrainingConfig, {"precision": "fp32", "bf16": True}, "must be one, but is bf16 and fp32"),
    ],
)
def test_section_rejects_values_by_their_path_and_rule(config, values, message):
    with pytest.raises(ToolkitError, match=message):
        config(**values)


def test_corpus_weights_are_parsed_from_one_word():
    words = ["a", "b:c", "--arch", "bert_tiny", "--task", "mlm", "--data.weights", "2,0.5"]
    data = load(words, TRAIN).config.data
    assert (data.dirs, data.weights) == (["a", "b:c"], [2.0, 0.5])


@pytest.mark.parametrize(("ranks", "each"), [(1, 36), (2, 18), (4, 9), (36, 1)])
def test_micro_batches_per_update_are_divided_by_ranks(ranks, each):
    assert TrainingConfig(micro_batches_per_update=36).micro_batches_per_rank(ranks) == each


def test_micro_batches_per_update_names_the_possible_numbers_of_ranks():
    with pytest.raises(ToolkitError, match=r"is 36 for 5\. Start one of 1, 2, 3, 4, 6, 9, 12, 18"):
        TrainingConfig(micro_batches_per_update=36).micro_batches_per_rank(5)
