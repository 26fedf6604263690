import pytest
import torch

from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.foreach import AdafactorConfig

FLOOR, DECAY = 1e-3, 0.1


def rms(x):
    return float(x.square().mean().sqrt())


@pytest.mark.parametrize("beta1", [0.0, 0.9])
@pytest.mark.parametrize("scales", [True, False])
@pytest.mark.parametrize(("relative", "lr"), [(True, 0.5), (False, 0.01)])
def test_adafactor_equals_the_loop_of_its_paper(largest_difference, relative, lr, scales, beta1):
    def loop(p, gradients, name):
        row, column, v, mean = 0.0, 0.0, 0.0, 0.0
        for t, g in enumerate(gradients, 1):
            b, squares = 1 - t**-0.8, g * g + 1e-30
            row = b * row + (1 - b) * squares.mean(-1, keepdim=True)
            if g.dim() > 1:
                column = b * column + (1 - b) * squares.mean(-2, keepdim=True)
                v = row * column / row.mean(-2, keepdim=True)
            else:
                v = b * v + (1 - b) * squares
            u = g / v.sqrt()
            rho = min(lr, 1 / t**0.5) if relative else lr
            alpha = rho * (max(FLOOR, rms(p)) if scales else 1)
            step = alpha * u / max(1, rms(u) / 1.0)
            mean = beta1 * mean + (1 - beta1) * step if beta1 else step
            p = (1 - rho * (0 if name.endswith("bias") else DECAY)) * p - mean
        return p

    options = {"relative_step": relative, "scale_parameter": scales, "beta1": beta1}
    assert largest_difference("adafactor", loop, lr=lr, weight_decay=DECAY, **options) < 1e-6


def test_adafactor_stores_a_row_and_a_column_per_matrix():
    p = torch.nn.Parameter(torch.ones(100, 50))
    optimizer = OPTIMIZERS["adafactor"].factory(AdafactorConfig(), [("weight", p)])
    p.grad = torch.ones(100, 50)
    optimizer.step()
    assert sum(t.numel() for t in optimizer.state[p].values()) == 100 + 50 + 1
