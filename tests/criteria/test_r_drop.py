"""R-Drop against a loop over rows and classes in float64, and whole runs."""

from __future__ import annotations

import math

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED, Classes
from toolkit.criteria.distillation import RDrop, RDropConfig
from toolkit.distributed import World
from toolkit.training.run import TrainingRun, run

R_DROP = {"criterion": "r_drop", "criterion.divergence_weight": 3.0, "log_interval": 7}


def softmax(row):
    total = sum(math.exp(it) for it in row)
    return [math.exp(it) / total for it in row]


def test_loss_of_two_passes_equals_a_loop():
    draw = torch.Generator().manual_seed(1)
    passes = torch.randn(2, 5, 7, generator=draw, dtype=torch.float64).requires_grad_()
    targets, criterion = (
        torch.tensor([1, IGNORED, 6, 0, 3]),
        RDrop(RDropConfig(divergence_weight=3)),
    )

    def loss(values):
        criterion.observe(lambda _: {"mlm": Classes(values[0], targets)}, None)
        return criterion({"mlm": Classes(values[1], targets)})["mlm"]

    total, each = 0.0, zip(*passes.tolist(), targets.tolist(), strict=True)
    for one, two, target in each:
        if target != IGNORED:
            p, q = softmax(one), softmax(two)
            both = sum((a - b) * math.log(a / b) for a, b in zip(p, q, strict=True))
            total += (3 / 2 * both - math.log(p[target]) - math.log(q[target])) / 2
    assert float(loss(passes).detach()) == pytest.approx(total, rel=1e-9)
    assert torch.autograd.gradcheck(loss, passes)
    with torch.no_grad():  # of one pass
        plain = criterion({"mlm": Classes(passes[1], targets)})["mlm"]
    rows = zip(passes[1].tolist(), targets.tolist(), strict=True)
    expected = -sum(math.log(softmax(row)[it]) for row, it in rows if it != IGNORED)
    assert float(plain) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_run_resumes_bit_for_bit_and_its_passes_differ(config, tmp_path, end_of, stopped):
    how = {**R_DROP, "arch.dropout": 0.3}
    whole, cut = (config(**how, save_dir=str(tmp_path / name)) for name in ("whole", "cut"))
    run(whole)
    stopped(cut, 3)
    run(cut)
    assert end_of(tmp_path / "cut") == end_of(tmp_path / "whole")
    weaker = {**how, "criterion.divergence_weight": 0.1}
    run(config(**weaker, save_dir=str(tmp_path / "weaker")))
    assert end_of(tmp_path / "weaker") != end_of(tmp_path / "whole")


@pytest.mark.slow
def test_two_ranks_without_dropout_equal_one_process_with_cross_entropy(config, tmp_path, ranks):
    def train(world, name, **options):
        still = {"arch.dropout": 0.0, "arch.attention_dropout": 0.0, "log_interval": 7}
        c = config(save_dir=str(tmp_path / name), batch_size=4, **{**still, **options})
        training = TrainingRun(c, world)
        try:
            training.fit()
            return training.validation.latest["valid"]["loss"]
        finally:
            training.close()

    alone = train(World(), "alone", update_freq=2)
    for sharding in ("none", "full"):
        how = {**R_DROP, "sharding": sharding}
        found = ranks(lambda world, how=how: train(world, how["sharding"], **how))
        assert found == pytest.approx([alone] * 2, rel=1e-4)


def test_objectives_of_numbers_are_refused(config):
    training = TrainingRun(config(**R_DROP, task="rtd", arch="bert_tiny"), World())
    with pytest.raises(ToolkitError, match="r_drop requires objectives that predict classes"):
        training.fit()
    training.close()
