from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.transformer import TransformerConfig
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.translation import Translation, TranslationConfig

TINY = {"width": 8, "heads": 2, "feed_forward_width": 8, "dropout": 0.0, "vocabulary_size": 17}
SMALL = {
    "transformer_tiny": {**TINY, "encoder_layers": 1, "decoder_layers": 1},
    "dynamicconv_tiny": {**TINY, "encoder_kernels": [3], "decoder_kernels": [3]},
}
SMALL["lightconv_tiny"] = SMALL["dynamicconv_tiny"]


@pytest.fixture
def examples(parallel):
    config = TranslationConfig()
    return Translation.examples(config, SplitSource(DataFolder.open(parallel), "valid"))


def learner(arch="transformer_tiny"):
    torch.manual_seed(2)
    model = build_model(arch, task="translation", **SMALL[arch]).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize("arch", SMALL)
def test_translation_predicts_each_token_from_the_source_and_the_previous_tokens(examples, arch):
    model, batch = learner(arch), examples.collate(np.arange(4), None)
    logits, targets = model(batch)["translation"]
    assert logits.shape == (len(targets), 17)
    later = batch.previous.clone()
    later[:, 2:] = (later[:, 2:] + 1) % 17  # what comes later may be anything
    changed = model(batch._replace(previous=later))["translation"].logits
    early = batch.selected % batch.previous.shape[1] < 2
    torch.testing.assert_close(changed[early], logits[early])
    assert not torch.allclose(changed[~early], logits[~early])


@pytest.mark.parametrize("arch", SMALL)
def test_translation_scores_a_pair_the_same_in_every_batch(examples, arch):
    model = learner(arch)
    together = model(examples.collate(np.arange(5), None))["translation"].logits
    alone = [model(examples.collate(np.array([i]), None))["translation"].logits for i in range(5)]
    torch.testing.assert_close(torch.cat(alone), together, atol=1e-5, rtol=1e-5)


def test_metrics_are_without_label_smoothing(examples):
    model, batch = learner(), examples.collate(np.arange(5), None)
    predictions = model(batch)
    logits, targets = predictions["translation"]
    metrics = model.task.metrics(predictions, batch)
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum").item()
    assert metrics["nll"].total.item() == pytest.approx(loss, rel=1e-5)
    assert metrics["ppl"] == metrics["nll"] and metrics["nll"].weight == len(targets)
    assert math.isclose(metrics["accuracy"].total, (logits.argmax(-1) == targets).sum())


def test_translation_requires_an_encoder_decoder():
    for arch in ("transformer_lm_tiny", "bert_tiny"):
        with pytest.raises(ToolkitError, match=r"translation requires an encoder-decoder model"):
            build_model(arch, vocabulary_size=17, task="translation")


def test_tokens_per_sample_defaults_to_the_maximum_of_the_architecture():
    with_table = TransformerConfig(positions="learned", max_positions=50)
    assert Translation.resolve_for(TranslationConfig(), with_table).tokens_per_sample == 50
    assert Translation.resolve_for(TranslationConfig(), TransformerConfig()).tokens_per_sample == 0
    with pytest.raises(ToolkitError, match=r"maximum length, 50, but is 60\. Lower it"):
        Translation.resolve_for(TranslationConfig(tokens_per_sample=60), with_table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overlength": "split"}, r"task.overlength must be one of error, skip, truncate, but"),
        ({"tokens_per_sample": 1}, r"task.tokens_per_sample must be 0 or at least 2, but is 1"),
        ({"validation_beam": -1}, r"task.validation_beam must be at least 0, but is -1"),
    ],
)
def test_translation_config_rejects_options_out_of_range(options, message):
    with pytest.raises(ToolkitError, match=message):
        TranslationConfig(**options)
