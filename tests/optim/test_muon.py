import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import OPTIMIZERS
from toolkit.nn.ops.linear import FusedLinear, list_parameters
from toolkit.optim.muon import ChainedOptimizer, MuonConfig, orthogonalize

LR, REST, MU, DECAY = 0.01, 0.005, 0.95, 0.1
MATRICES = ("encoder.layers.0.output.weight", "encoder.layers.0.wide.weight")


def iterate_quintic(x):
    """The quintic iteration of one matrix, straight from its definition."""
    if x.shape[0] > x.shape[1]:
        return iterate_quintic(x.T).T
    x = x / x.norm()
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x - 4.7750 * a @ x + 2.0315 * a @ a @ x
    return x


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("matches", [True, False])
def test_muon_equals_its_definition_on_matrices_and_adamw_on_the_rest(
    largest_difference, matches, nesterov, monkeypatch
):
    monkeypatch.setattr("toolkit.optim.muon.bf16_is_fast", lambda device: False)

    def matrix(p, gradients):
        m, (rows, columns) = 0.0, p.shape
        scale = 0.2 * max(rows, columns) ** 0.5 if matches else max(1, rows / columns) ** 0.5
        for g in gradients:
            m = MU * m + (1 - MU) * g
            momentum = (1 - MU) * g + MU * m if nesterov else m
            p = p - LR * (scale * iterate_quintic(momentum) + DECAY * p)
        return p

    def loop(p, gradients, name):
        if name in MATRICES:
            return matrix(p, gradients)
        m, v, decay = 0.0, 0.0, 0.0 if name.endswith("bias") else DECAY
        for t, g in enumerate(gradients, 1):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            step = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-6)
            p = p - REST * (step + decay * p)
        return p

    options = {"match_adamw_rms": matches, "nesterov": nesterov, "adamw_lr": REST}
    options |= {"lr": LR, "weight_decay": DECAY, "momentum": MU}
    assert largest_difference("muon", loop, **options) < 1e-6


def test_maps_of_one_product_are_orthogonalized_each_alone(monkeypatch):
    monkeypatch.setattr("toolkit.optim.muon.bf16_is_fast", lambda device: False)
    torch.manual_seed(0)
    model = nn.ModuleDict({"layers": nn.ModuleList([FusedLinear(6, [4, 9, 4], bias=False)])})
    weight = model["layers"][0].weight
    before = weight.detach().double()
    optimizer = OPTIMIZERS["muon"].factory(
        MuonConfig(lr=LR, split_fused=True), list_parameters(model)
    )
    weight.grad = torch.randn(17, 6) * torch.tensor([1.0] * 4 + [30.0] * 9 + [0.1] * 4)[:, None]
    optimizer.step()
    for rows in (slice(0, 4), slice(4, 13), slice(13, 17)):
        step = iterate_quintic(weight.grad[rows].double())
        scale = 0.2 * max(step.shape) ** 0.5
        expected = before[rows] - LR * (scale * step + 0.01 * before[rows])
        assert (weight.detach()[rows] - expected).abs().max() < 1e-6


def test_orthogonalize_in_bf16_is_close_to_fp32(monkeypatch):
    torch.manual_seed(0)
    x, found = torch.randn(3, 64, 48), {}
    for fast in (True, False):
        monkeypatch.setattr("toolkit.optim.muon.bf16_is_fast", lambda device, fast=fast: fast)
        found[fast] = orthogonalize(x, 5)
    assert found[True].dtype == torch.float32
    assert 0 < (found[True] - found[False]).norm() / found[False].norm() < 0.03


def test_muon_rejects_an_architecture_without_matrices_in_layers():
    p = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(
        ToolkitError, match=r"muon requires matrices to train, .* 0 are frozen and .* Choose"
    ):
        OPTIMIZERS["muon"].factory(MuonConfig(), [("encoder.token_embedding.weight", p)])


def test_chained_optimizer_steps_its_parts_with_separate_rates():
    p, q = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    chained = ChainedOptimizer(
        [torch.optim.SGD([p], lr=0.1), torch.optim.SGD([q], lr=0.2, momentum=0.9)]
    )
    assert [group["lr"] for group in chained.param_groups] == [0.1, 0.2]
    for group in chained.param_groups:
        group["lr"] *= 2
    p.grad = q.grad = torch.ones(1)
    chained.step()
    assert torch.allclose(torch.cat([p, q]), torch.tensor([0.8, 0.6]))
    chained.zero_grad()
    assert p.grad is None and q.grad is None
