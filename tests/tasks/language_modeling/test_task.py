from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.transformer_lm import TransformerLMConfig
from toolkit.optim.update import Precision
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.language_modeling.config import LanguageModelingConfig
from toolkit.tasks.language_modeling.task import LanguageModeling
from toolkit.training.evaluation import batch_statistics, compute_metrics


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


def test_language_model_predicts_each_token_from_the_previous_ones(learner, examples):
    batch = examples.collate(np.arange(3), None)
    logits, targets = learner(batch)["lm"]
    assert logits.shape == (len(targets), learner.encoder.token_embedding.num_embeddings)
    tokens = batch.inputs.tokens.clone()
    tokens[:, 5:] = 7
    changed = learner(batch._replace(inputs=batch.inputs._replace(tokens=tokens)))["lm"].logits
    early = batch.selected % tokens.shape[1] < 5
    torch.testing.assert_close(changed[early], logits[early])


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


def test_language_modeling_requires_a_decoder_only_model():
    for arch in ("transformer_tiny", "bert_tiny"):
        with pytest.raises(ToolkitError, match=r"requires a causal language model, but"):
            build_model(arch, vocabulary_size=17, task="language_modeling")


def test_tokens_per_sample_is_as_given_the_default_or_the_maximum():
    def resolved_length(requested=0, **arch):
        config = LanguageModelingConfig(tokens_per_sample=requested)
        return LanguageModeling.resolve_for(config, TransformerLMConfig(**arch)).tokens_per_sample

    with_table = {"positions": "learned", "max_positions": 50}
    assert (
        resolved_length(),
        resolved_length(2000),
        resolved_length(**with_table),
        resolved_length(20, **with_table),
    ) == (512, 2000, 50, 20)
    with pytest.raises(ToolkitError, match=r"maximum length, 50, but is 60\. Lower it"):
        resolved_length(60, **with_table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sample_mode": "pairs"},
            r"task.sample_mode must be one of blocks, documents",
        ),
        ({"tokens_per_sample": 1}, r"task.tokens_per_sample must be 0 or at least 2"),
    ],
)
def test_language_modeling_config_rejects_options_out_of_range(options, message):
    with pytest.raises(ToolkitError, match=message):
        LanguageModelingConfig(**options)
