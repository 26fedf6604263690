import pytest
import torch

from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.adam import AdamConfig
from toolkit.optim.update import clip_and_step

LR, B1, B2, EPS, DECAY = 0.01, 0.9, 0.999, 1e-6, 0.1


def loop(*, decoupled=0.0, added=0.0, corrects=True):
    """Loops of the two papers."""

    def run(p, gradients, name):
        m, v, decays = 0.0, 0.0, not name.endswith("bias")
        for t, g in enumerate(gradients, 1):
            g = g + added * decays * p
            m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
            hats = (1 - B1**t, 1 - B2**t) if corrects else (1, 1)
            step = (m / hats[0]) / ((v / hats[1]).sqrt() + EPS)
            p = p - LR * (step + decoupled * decays * p)
        return p

    return run


@pytest.mark.parametrize("corrects", [True, False])
@pytest.mark.parametrize(("name", "decay"), [("adamw", "decoupled"), ("adam", "added")])
def test_adam_equals_its_formula_with_and_without_bias_correction(
    largest_difference, name, decay, corrects
):
    options = {"lr": LR, "weight_decay": DECAY, "bias_correction": corrects}
    difference = largest_difference(name, loop(**{decay: DECAY}, corrects=corrects), **options)
    assert difference < 1e-6


def test_adam_without_bias_correction_is_unchanged_by_a_skipped_first_update():
    p = torch.nn.Parameter(torch.ones(3))
    adam = OPTIMIZERS["adamw"].factory(AdamConfig(bias_correction=False), [("a", p)])
    p.grad = torch.full((3,), float("nan"))
    assert clip_and_step(adam, [p], clip_norm=1.0).skipped
    assert torch.equal(p, torch.ones(3)) and not adam.state[p]["exp_avg"].any()
