"""Runs that are stopped and resumed end bit for bit as whole ones; two ranks as one process."""

from __future__ import annotations

import pytest

SCHEDULES = {
    "task.mask_rate": "0.4:0.2",
    "task.tokens_per_sample": "6@0,12@1epochs",
    "data.batch_size": "4@0,8@1epochs",
    "arch.dropout": "0.3@0,0.1@50%",
    "arch.attention_window": "2@0,4@25%",
    "optimizer.weight_decay": "0.1:0",
    "arch.layers": 2,
}
RTD = {"arch": "bert_tiny", "task": "rtd", "lr": 0.01, "mask_rate": 0.3}
SEPARATE = {**RTD, "task.embedding_sharing": "disentangled"}
ADAPTIVE = {"task.masking": "exact", "task.adaptive_interval": 2, "task.mask_rate": 0.3}
R_DROP = {"criterion": "r_drop", "criterion.divergence_weight": 3.0}
HYBRID = {"task": "hybrid", "task.causal_ratio": 0.5, "arch.embedding_width": 16}
FROZEN = {"freeze": ["embeddings", "layers.0"], "arch.layers": 2}
SIX = {"max_update": 6, "lr": 0.01}
PLATEAU = {"lr_scheduler": "plateau", "lr_scheduler.factor": 0.5, "best_metric": "accuracy"}
"""The accuracy never rises at a rate of 1e-7: five plateaus in a row."""
RESUMED = [
    *((at, SCHEDULES) for at in (3, 12)),
    *((7, {"task.masking": masking}) for masking in ("frequency", "pmi")),
    *((3, {"data.curriculum": kind}) for kind in ("length", "rarity")),
    *((at, ADAPTIVE) for at in (3, 4)),
    *((3, options) for options in (RTD, SEPARATE)),
    (3, {**R_DROP, "arch.dropout": 0.3}),
    (4, {**FROZEN, "ema_decay": 0.9}),
    (3, {"ema_decay": 0.9, "lr": 0.05, "max_update": 6, "lr_scheduler": "fixed"}),
    (3, {**SIX, "optimizer": "adafactor", "lr_scheduler": "cosine"}),
    (3, {**SIX, "optimizer": "muon", "lr_scheduler": "linear"}),
    (3, {**SIX, **PLATEAU, "lr": 1e-7, "validate_interval_updates": 1}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("at", "options"), RESUMED, ids=str)
def test_run_resumes_bit_for_bit(resumes_exactly, at, options):
    resumes_exactly(at, options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        RTD,
        SEPARATE,
        R_DROP,
        {**FROZEN, "lr": 0.01, "training.check_ranks_interval": 1},
        *({**HYBRID, "arch": arch} for arch in ("composite_bert_tiny", "gpt_bert_tiny")),
    ],
    ids=str,
)
def test_two_ranks_equal_one_process(same_on_two_ranks, options):
    same_on_two_ranks(options)
