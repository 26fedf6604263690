import pytest
import torch

from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.adam import AdamConfig

LR, B1, B2, EPS, DECAY = 0.01, 0.9, 0.999, 1e-6, 0.1


@pytest.mark.parametrize("decay", [DECAY, 0.0])
@pytest.mark.parametrize("corrects", [True, False])
def test_lamb_equals_the_loop_of_its_paper(largest_difference, corrects, decay):
    def loop(p, gradients, name):
        m, v, no_decay = 0.0, 0.0, name.endswith("bias")
        for t, g in enumerate(gradients, 1):
            m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
            hats = (1 - B1**t, 1 - B2**t) if corrects else (1, 1)
            r = (m / hats[0]) / ((v / hats[1]).sqrt() + EPS)
            r = r if no_decay else r + decay * p
            p = p - LR * (1 if no_decay else p.norm() / r.norm()) * r
        return p

    options = {"lr": LR, "weight_decay": decay, "bias_correction": corrects}
    assert largest_difference("lamb", loop, **options) < 1e-6


def test_trust_ratio_of_a_zero_parameter_or_step_is_one():
    p = torch.nn.Parameter(torch.tensor([0.0, 2.0]))
    rows = [("zero.weight", torch.nn.Parameter(p[:1].detach().clone())), ("still.weight", p)]
    optimizer = OPTIMIZERS["lamb"].factory(AdamConfig(lr=0.1, weight_decay=0.0), rows)
    for (_, each), gradient in zip(rows, (3.0, 0.0), strict=True):
        each.grad = torch.full_like(each, gradient)
    optimizer.step()
    assert rows[0][1].item() == pytest.approx(-0.1, rel=1e-4) and p.tolist() == [0.0, 2.0]
