import pytest
import torch

from toolkit.optim.update import clip_and_step


def case(fused, gradient):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    p.grad = torch.tensor(gradient)
    return p, torch.optim.SGD([p], lr=1.0, fused=fused)


@pytest.mark.parametrize("fused", [True, False])
def test_short_gradient_is_not_clipped(fused):
    p, sgd = case(fused, [0.3, 0.4])
    outcome = clip_and_step(sgd, [p], clip_norm=1.0)
    assert [float(x) for x in outcome] == pytest.approx([0.5, 0, 0])
    torch.testing.assert_close(p.detach(), torch.tensor([0.7, 1.6]))


@pytest.mark.parametrize("fused", [True, False])
def test_long_gradient_is_clipped(fused):
    p, sgd = case(fused, [3.0, 4.0])
    outcome = clip_and_step(sgd, [p], clip_norm=0.5)
    assert [float(x) for x in outcome] == pytest.approx([5, 1, 0])
    torch.testing.assert_close(p.detach(), torch.tensor([0.7, 1.6]))


@pytest.mark.parametrize("fused", [True, False])
def test_loss_scale_changes_neither_norm_nor_step(fused):
    p, sgd = case(fused, [0.3 * 64, 0.4 * 64])
    outcome = clip_and_step(sgd, [p], clip_norm=1.0, loss_scale=torch.tensor(64.0))
    assert float(outcome.norm) == pytest.approx(0.5)
    torch.testing.assert_close(p.detach(), torch.tensor([0.7, 1.6]))


@pytest.mark.parametrize("fused", [True, False])
def test_non_finite_gradient_changes_neither_parameters_nor_state(fused):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    adam = torch.optim.Adam([p], fused=fused)
    p.grad = torch.tensor([1.0, 1.0])
    clip_and_step(adam, [p], clip_norm=1.0)
    before = [p.detach().clone(), *(t.clone() for t in adam.state[p].values())]
    p.grad = torch.tensor([float("inf"), 1.0])
    assert clip_and_step(adam, [p], clip_norm=1.0).skipped
    for old, new in zip(before, [p.detach(), *adam.state[p].values()], strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("fused", [True, False])
def test_skipped_update_changes_nothing_and_reports_its_norm(fused):
    p, sgd = case(fused, [0.3, 0.4])
    norms = []

    def skip(norm):
        norms.append(float(norm))
        return torch.tensor(1.0)

    outcome = clip_and_step(sgd, [p], clip_norm=1.0, should_skip=skip)
    assert [float(x) for x in outcome] == pytest.approx([0.5, 0, 1])
    assert norms == pytest.approx([0.5]) and p.tolist() == [1.0, 2.0]


class FusedNoOp(torch.optim.Optimizer):
    """Does nothing, on any device."""

    def __init__(self, parameters):
        super().__init__(parameters, {"fused": True})

    def step(self):
        pass


def test_norm_of_no_gradients_is_on_the_device_of_the_parameters():
    p = torch.nn.Parameter(torch.empty(2, device="meta"))
    outcome = clip_and_step(FusedNoOp([p]), [p], clip_norm=1.0)
    assert {value.device.type for value in outcome} == {"meta"}
