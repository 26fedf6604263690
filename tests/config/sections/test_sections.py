import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import load
from toolkit.config.sections import CheckpointConfig, DataConfig, LoggingConfig, TrainingConfig


@pytest.mark.parametrize("config", [CheckpointConfig, DataConfig, LoggingConfig, TrainingConfig])
def test_defaults_of_every_section_are_valid(config):
    config()


@pytest.mark.parametrize(
    ("config", "values", "message"),
    [
        (CheckpointConfig, {"keep_last_epochs": -1}, "checkpoint.keep_last_epochs must be at leas"),
        (CheckpointConfig, {"max_failed_saves": 0}, "checkpoint.max_failed_saves must be at least"),
        (DataConfig, {"max_tokens": 0}, "data.max_tokens must be at least 1, but is 0"),
        (DataConfig, {"weights": [0.0]}, "each item of data.weights must be above 0, but is 0"),
        (DataConfig, {"dirs": ["a", "b"], "weights": [2.0]}, "there are 1 for 2. Shards of one"),
        (LoggingConfig, {"log_interval": 0}, "logging.log_interval must be at least 1, but is 0"),
        (LoggingConfig, {"progress": "loud"}, "must be one of auto, bar, lines, but is 'loud'"),
        (TrainingConfig, {"precision": "int8"}, "one of auto, fp32, tf32, bf16, fp16, but"),
        (
            TrainingConfig,
            {"fp16": True, "bf16": True},
            "precision must be one, but is fp16 and bf16",
        ),
        (TrainingConfig, {"precision": "fp32", "bf16": True}, "must be one, but is bf16 and fp32"),
        (
            TrainingConfig,
            {"device": "tpu"},
            "training.device must be one of auto, cpu, cuda, mps, xpu",
        ),
        (TrainingConfig, {"clip_norm": -1.0}, "training.clip_norm must be at least 0, but is -1.0"),
        (TrainingConfig, {"ema_decay": 1.0}, "ema_decay must be at least 0 and below 1, but is 1"),
        (TrainingConfig, {"timeout_seconds": 0.0}, "timeout_seconds must be above 0, but is 0.0"),
    ],
)
def test_section_rejects_values_by_their_path_and_rule(config, values, message):
    with pytest.raises(ToolkitError, match=message):
        config(**values)


def test_same_precision_may_be_given_twice():
    assert TrainingConfig(precision="bf16", bf16=True).bf16


def test_corpus_weights_are_parsed_from_one_word():
    words = ["a", "b:c", "--arch", "bert_tiny", "--task", "mlm", "--data.weights", "2,0.5"]
    data = load(words, TRAIN).config.data
    assert (data.dirs, data.weights) == (["a", "b:c"], [2.0, 0.5])


@pytest.mark.parametrize(("ranks", "each"), [(1, 36), (2, 18), (4, 9), (36, 1)])
def test_micro_batches_per_update_are_divided_by_ranks(ranks, each):
    assert TrainingConfig(micro_batches_per_update=36).micro_batches_per_rank(ranks) == each


def test_update_freq_applies_without_micro_batches_per_update():
    assert TrainingConfig(update_freq=3).micro_batches_per_rank(7) == 3


def test_micro_batches_per_update_names_the_possible_numbers_of_ranks():
    with pytest.raises(ToolkitError, match=r"is 36 for 5\. Start one of 1, 2, 3, 4, 6, 9, 12, 18"):
        TrainingConfig(micro_batches_per_update=36).micro_batches_per_rank(5)
