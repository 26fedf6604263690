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
def test_passes_of_a_run_differ(config, tmp_path):
    losses = []
    for weight in (0.01, 3.0):
        options = {**R_DROP, "arch.dropout": 0.3, "criterion.divergence_weight": weight}
        losses.append(run(config(**options, save_dir=str(tmp_path / str(weight)))).train["loss"])
    assert losses[0] < losses[1]


def test_objectives_of_numbers_are_refused(config):
    training = TrainingRun(config(**R_DROP, task="rtd", arch="bert_tiny"), World())
    with pytest.raises(ToolkitError, match="r_drop requires objectives that predict classes"):
        training.fit()
    training.close()
