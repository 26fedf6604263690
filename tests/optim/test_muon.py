import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.muon import MuonConfig, orthogonalize

LR, REST, MU, DECAY = 0.01, 0.005, 0.95, 0.1
MATRICES = ("encoder.layers.0.output.weight", "encoder.layers.0.wide.weight")


def iterated(x):
    """The quintic iteration of one matrix, entry by entry of its definition."""
    if x.shape[0] > x.shape[1]:
        return iterated(x.T).T
    x = x / x.norm()
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x - 4.7750 * a @ x + 2.0315 * a @ a @ x
    return x


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("matches", [True, False])
def test_muon_equals_its_definition_on_matrices_and_adamw_on_the_rest(
    largest_difference, matches, nesterov
):
    def matrix(p, gradients):
        m, (rows, columns) = 0.0, p.shape
        size = 0.2 * max(rows, columns) ** 0.5 if matches else max(1, rows / columns) ** 0.5
        for g in gradients:
            m = MU * m + (1 - MU) * g
            ahead = (1 - MU) * g + MU * m if nesterov else m
            p = p - LR * (size * iterated(ahead) + DECAY * p)
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
    found = largest_difference("muon", loop, lr=LR, weight_decay=DECAY, momentum=MU, **options)
    assert found < 1e-6


def test_the_directions_of_a_matrix_become_about_equally_long():
    torch.manual_seed(0)
    found = orthogonalize(torch.randn(2, 8, 32), 5)
    for matrix in found:
        assert all(0.6 < float(s) < 1.3 for s in torch.linalg.svdvals(matrix))


def test_a_gradient_of_zeros_moves_nothing():
    assert not orthogonalize(torch.zeros(1, 3, 4), 5).any()


def test_an_architecture_without_matrices_in_layers_is_refused():
    p = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ToolkitError, match=r"muon must find matrices of layers, .* Choose"):
        OPTIMIZERS["muon"].factory(MuonConfig(), [("encoder.token_embedding.weight", p)])


def test_impossible_settings_are_refused():
    with pytest.raises(ToolkitError, match=r"optimizer.adamw_lr must be at least 0, but is -1.0"):
        MuonConfig(adamw_lr=-1.0)
    with pytest.raises(ToolkitError, match=r"optimizer.newton_schulz_steps must be at least 1"):
        MuonConfig(newton_schulz_steps=0)
