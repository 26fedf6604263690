from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from toolkit import build_model
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.data.formats.text import encode_raw_texts
from toolkit.data.storage.data_folder import SPLIT, DataFolder
from toolkit.optim.update import Precision
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.language_modeling import BlockExamples, LanguageModeling, LanguageModelingConfig
from toolkit.training.evaluation import batch_statistics, compute_metrics


@pytest.fixture
def make_examples(data):
    def make(split="valid", row_multiple=1, **options):
        options = {"tokens_per_sample": 20, **options}
        source = SplitSource(DataFolder.open(data), split, row_multiple=row_multiple)
        return BlockExamples(LanguageModelingConfig(**options), source)

    return make


def test_targets_are_the_tokens_of_the_text_alone(make_examples, data):
    examples, column = make_examples(), DataFolder.open(data).split("valid").column("tokens")
    batch = examples.collate(np.arange(len(examples.lengths)), None)
    assert batch.weights == {"lm": float(column.elements + column.items)}
    assert batch.tokens == len(batch.targets) == len(batch.selected) == examples.lengths.sum()
    assert batch.inputs.tokens.shape[0] == batch.sentences == len(examples.lengths)


def test_word_count_includes_the_ends_of_items(make_examples, data):
    batch = make_examples(tokens_per_sample=500).collate(np.zeros(1, np.int64), None)
    folder = DataFolder.open(data)
    column, words = folder.split("valid").column("tokens"), folder.vocabulary
    [part] = column.parts
    text = part.take(np.arange(part.elements)[None], np.zeros(1, int), np.array([part.elements]))
    assert batch.word_count == sum("▁" in words.symbols[i] for i in text[0]) + column.items


def test_word_count_includes_unmarked_first_words(byte_level):
    lines = ["b c b", "c b"]
    folder = encode_raw_texts(byte_level, lines, None)
    config = LanguageModelingConfig(sample_mode="items", tokens_per_sample=64)
    batch = BlockExamples(config, SplitSource(folder, SPLIT)).collate(np.arange(2), None)
    assert batch.word_count == sum(len(line.split()) + 1 for line in lines)


def test_examples_leave_the_vocabulary_unchanged(make_examples, data):
    folder = DataFolder.open(data)
    BlockExamples(LanguageModelingConfig(tokens_per_sample=20), SplitSource(folder, "valid"))
    end = np.array([folder.vocabulary.sep])
    assert not folder.vocabulary.words.starts(end).any()


@pytest.fixture
def examples(data):
    config = LanguageModelingConfig(tokens_per_sample=12)
    return LanguageModeling.examples(config, SplitSource(DataFolder.open(data), "valid"))


@pytest.fixture
def learner(data):
    torch.manual_seed(1)
    size = len(DataFolder.open(data).vocabulary)
    shape = {"layers": 1, "width": 8, "heads": 2, "feed_forward_width": 8, "dropout": 0.0}
    model = build_model(
        "transformer_lm_tiny", vocabulary_size=size, task="language_modeling", **shape
    )
    return model.eval()


def test_metrics_include_token_and_word_perplexity(learner, examples):
    criterion = CrossEntropy(CrossEntropyConfig(label_smoothing=0.3))
    batches = [examples.collate(np.array([i]), None) for i in range(len(examples.lengths))]
    sums = {}
    for batch in batches:
        with torch.no_grad():
            found = batch_statistics(
                learner, criterion, batch, Precision("fp32", torch.device("cpu"))
            )
        for name, value in found.items():
            sums[name] = np.asarray(sums.get(name, 0.0) + float(value))
    metrics = compute_metrics(sums, learner.task.coefficients, with_perplexity=True)
    with torch.no_grad():
        log_p = [learner(batch)["lm"] for batch in batches]
    total = sum(torch.nn.functional.cross_entropy(*p, reduction="sum").item() for p in log_p)
    tokens, words = (
        sum(getattr(batch, name) for batch in batches) for name in ("tokens", "word_count")
    )
    assert metrics["ppl"] == pytest.approx(math.exp(total / tokens), rel=1e-5)
    assert metrics["word_ppl"] == pytest.approx(math.exp(total / words), rel=1e-5)
    assert (
        metrics["nll"] == pytest.approx(total / tokens, rel=1e-5)
        and metrics["loss"] != metrics["nll"]
    )
