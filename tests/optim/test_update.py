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
