import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.muon import ITERATIONS, ChainedOptimizer, MuonConfig, orthogonalize

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


def polar(x, polynomials):
    """x with each singular value s moved by a s + b s^3 + c s^5 in turn, by decomposition."""
    u, s, v = torch.linalg.svd(x / (1.02 * x.norm()), full_matrices=False)
    for a, b, c in polynomials:
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ v


@pytest.mark.parametrize("steps", [3, 7])
def test_polar_express_moves_singular_values_by_its_polynomials(monkeypatch, steps):
    monkeypatch.setattr("toolkit.optim.muon.bf16_is_fast", lambda device: False)
    x = torch.randn(2, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    polynomials = (ITERATIONS["polar_express"] + [ITERATIONS["polar_express"][-1]])[:steps]
    expected = torch.stack([polar(matrix, polynomials) for matrix in x])
    assert torch.allclose(orthogonalize(x, steps, "polar_express"), expected)
    if steps == 7:
        assert (torch.linalg.svdvals(expected) - 1).abs().max() < 1e-4
        sums = torch.tensor(polynomials[:5], dtype=torch.float64).sum(1)
        literal = [1.5520, 1.7340, 1.6252, 1.3821, 1.0600]
        assert torch.allclose(sums, sums.new_tensor(literal), atol=1e-4)


@pytest.mark.parametrize(("beta", "cautious"), [(0.9, False), (0.0, True), (0.9, True)])
def test_rows_are_normalized_and_decay_is_cautious_as_defined(
    largest_difference, beta, cautious, monkeypatch
):
    monkeypatch.setattr("toolkit.optim.muon.bf16_is_fast", lambda device: False)

    def loop(p, gradients, name):
        if name not in MATRICES:
            return p  # with a learning rate of 0 for all others
        m, v, size = 0.0, torch.zeros(len(p), dtype=p.dtype), 0.2 * max(p.shape) ** 0.5
        for g in gradients:
            m = MU * m + (1 - MU) * g
            step = iterate_quintic((1 - MU) * g + MU * m)
            if beta:
                norm = step.norm()
                for row in range(len(p)):
                    v[row] = beta * v[row] + (1 - beta) * (step[row] ** 2).sum() / len(step[row])
                step = torch.stack([step[row] / v[row] ** 0.5 for row in range(len(p))])
                step = step * norm / step.norm()
            decayed = p * DECAY * (step * p >= 0) if cautious else p * DECAY
            p = p - LR * (size * step + decayed)
        return p

    options = {"normuon_beta2": beta, "cautious_decay": cautious, "adamw_lr": 0.0}
    options |= {"lr": LR, "weight_decay": DECAY, "momentum": MU}
    assert largest_difference("muon", loop, **options) < 1e-6


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
