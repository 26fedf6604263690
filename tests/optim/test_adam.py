import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.adam import AdamConfig

LR, B1, B2, EPS = 0.1, 0.9, 0.999, 1e-6


def written_out(p, gradients, *, decoupled=0.0, added=0.0):
    """The two papers' loops, in float64."""
    p, m, v = p.double(), 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        g = g.double() + added * p
        m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
        corrected = (m / (1 - B1**t)) / ((v / (1 - B2**t)).sqrt() + EPS)
        p = p - LR * (corrected + decoupled * p)
    return p.float()


@pytest.mark.parametrize(
    ("name", "last", "terms"),
    [
        ("adamw", "weight", {"decoupled": 0.01}),
        ("adamw", "bias", {}),
        ("adam", "weight", {"added": 0.01}),
    ],
)
def test_the_optimizer_equals_its_formula_written_out(name, last, terms):
    torch.manual_seed(0)
    p, gradients = torch.randn(4, 3), torch.randn(5, 4, 3)
    wanted = written_out(p, gradients, **terms)
    parameter = torch.nn.Parameter(p.clone())
    config = AdamConfig(lr=LR, weight_decay=0.01)
    optimizer = OPTIMIZERS[name].build(config, [(f"layer.{last}", parameter)])
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    torch.testing.assert_close(parameter.detach(), wanted, atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("lr", -1.0, "must not be negative, but is -1.0"),
        ("weight_decay", -0.5, "must not be negative, but is -0.5"),
        ("eps", 0.0, "must be above 0, but is 0.0"),
        ("beta1", 1.0, "must be at least 0 and below 1, but is 1.0"),
    ],
)
def test_impossible_settings_are_refused(field, value, rule):
    with pytest.raises(ToolkitError, match=f"optimizer.{field} {rule}"):
        AdamConfig(**{field: value})
