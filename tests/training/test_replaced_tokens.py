"""Complete runs of the task rtd: resumed, on two ranks, and used for inference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit import load_checkpoint
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.training.run import TrainingRun, run

RTD = {"arch": "bert_tiny", "task": "rtd", "log_interval": 7, "lr": 0.01, "mask_rate": 0.3}
STILL = {"arch.dropout": 0.0, "arch.attention_dropout": 0.0}


def test_rtd_masks_do_not_depend_on_the_batch(config):
    training = TrainingRun(config(**RTD, **STILL), World())
    learner, criterion = training.trainer.learner.eval(), training.trainer.criterion
    for parameter in learner.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    examples = training.train.examples
    whole, *parts = (
        criterion(learner(examples.collate(np.arange(*some), 2)))
        for some in ((0, 8), (0, 3), (3, 8))
    )
    training.close()
    for name, total in whole.items():
        torch.testing.assert_close(sum(part[name] for part in parts), total, rtol=1e-5, atol=0)


def test_rtd_generator_fills_masks(config, tmp_path):
    run(config(**RTD, max_update=2))
    learner = load_checkpoint(tmp_path / "run")
    generator, tokenizer = learner.task.generator, learner.tokenizer
    words = tokenizer.vocabulary
    ids = [words.cls, *tokenizer.encode("the cat"), words.mask, *tokenizer.encode("on"), words.sep]
    with torch.no_grad():
        states = generator.encoder(Inputs(torch.tensor([ids]))).states[0]
        logits = generator.head(states, learner.encoder.token_embedding.weight)[
            ids.index(words.mask)
        ]
    best = logits.softmax(-1).topk(3)
    (found,) = learner.fill_mask("the cat [MASK] on", top=3)
    assert [token for token, _ in found] == [
        words.symbols[i].lstrip("\u2581") for i in best.indices
    ]
    assert [share for _, share in found] == pytest.approx(best.values.tolist(), rel=1e-4)
