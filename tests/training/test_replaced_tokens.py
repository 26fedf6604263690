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


def trained(config, world=None):
    """The validation losses at the end."""
    training = TrainingRun(config, world or World())
    try:
        training.fit()
        figures = training.validation.latest["valid"]
        return [figures[name] for name in ("mlm_loss", "rtd_loss", "loss")]
    finally:
        training.close()


@pytest.mark.slow
def test_rtd_run_resumes_to_the_same_weights(config, tmp_path, end_of, stopped):
    def run_config(folder):
        return config(**RTD, save_dir=str(tmp_path / folder))

    run(run_config("whole"))
    stopped(run_config("cut"), 3)
    run(run_config("cut"))
    assert end_of(tmp_path / "cut") == end_of(tmp_path / "whole")


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


@pytest.mark.slow
def test_rtd_on_two_sharded_ranks_equals_one_process(config, tmp_path, ranks):
    def how(folder, **options):
        options = {"save_dir": str(tmp_path / folder), "batch_size": 4, **options}
        return config(**RTD, **STILL, **options)

    alone = trained(how("alone", update_freq=2))
    for found in ranks(lambda world: trained(how("both", sharding="full"), world)):
        assert found == pytest.approx(alone, rel=1e-4)


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
