"""The loss of projected states equals that of their stored logits, with all gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from toolkit import criteria
from toolkit.criteria import IGNORED, Classes, Criterion, ProjectedClasses, cross_entropy, project
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.nn.ops import linear

COUNT, CLASSES, WIDTH = 37, 11, 6


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setitem(cross_entropy.ROWS_PER_CHUNK, "cpu", 8)
    monkeypatch.setattr(criteria, "MIN_PROJECTED_LOGITS", 1)


def operands(dtype=torch.float64, bias=True):
    torch.manual_seed(0)
    targets = torch.randint(CLASSES, (COUNT,))
    targets[[1, 8, -1]] = IGNORED
    states, table, offset = (
        (2 * torch.randn(size)).to(dtype).requires_grad_()
        for size in ((COUNT, WIDTH), (CLASSES, WIDTH), (CLASSES,))
    )
    return states, table, offset if bias else None, targets


def total(prediction, smoothing=0.0):
    return CrossEntropy(CrossEntropyConfig(label_smoothing=smoothing))({"x": prediction})["x"]


def gradients(loss, tensors):
    return torch.autograd.grad(2.5 * loss, [each for each in tensors if each is not None])


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_equal_those_of_stored_logits(smoothing, bias, multiple, monkeypatch):
    monkeypatch.setitem(linear.CLASSES_MULTIPLE, "cpu", multiple)
    *tensors, targets = operands(bias=bias)
    prediction = project(*tensors, targets=targets)
    assert isinstance(prediction, ProjectedClasses)
    expected = F.cross_entropy(
        F.linear(*tensors),
        targets,
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=smoothing,
    )
    loss = total(prediction, smoothing)
    torch.testing.assert_close(loss, expected)
    for pair in zip(gradients(loss, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(*pair)


def test_gradients_under_bf16_autocast_are_as_close_to_fp32_as_those_of_stored_logits():
    *tensors, targets = operands(torch.float32)
    exact = gradients(total(ProjectedClasses(*tensors, targets)), tensors)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(total(ProjectedClasses(*tensors, targets)), tensors)
        stored = gradients(total(Classes(F.linear(*tensors), targets)), tensors)
    for each, plain, reference in zip(found, stored, exact, strict=True):
        assert each.dtype == torch.float32
        scale = reference.norm()
        assert (each - reference).norm() / scale < 1.5 * (plain - reference).norm() / scale < 0.05


def test_a_frozen_table_receives_no_gradient():
    states, table, bias, targets = operands()
    frozen = ProjectedClasses(states, table.detach(), bias.detach(), targets)
    expected = total(Classes(F.linear(states, table, bias), targets))
    torch.testing.assert_close(gradients(total(frozen), [states]), gradients(expected, [states]))


def test_no_predictions_cost_nothing():
    states, table, bias, targets = operands()
    loss = total(ProjectedClasses(states[:0], table, bias, targets[:0]))
    assert loss == 0
    assert not any(it.any() for it in gradients(loss, [table, bias]))


def test_logits_are_stored_for_few_predictions_for_evaluation_and_for_fp16(monkeypatch):
    *tensors, targets = operands(torch.float32)
    with torch.no_grad():
        assert isinstance(project(*tensors, targets=targets), Classes)
    with torch.autocast("cpu", torch.float16):
        assert isinstance(project(*tensors, targets=targets), Classes)
    monkeypatch.setattr(criteria, "MIN_PROJECTED_LOGITS", COUNT * CLASSES + 1)
    assert isinstance(project(*tensors, targets=targets), Classes)


class Margin(Criterion):
    """A criterion that reads logits."""

    def forward(self, predictions):
        logits, targets = predictions["x"]
        valid = targets != IGNORED
        return {"x": nn.MultiMarginLoss(reduction="sum")(logits[valid], targets[valid])}


def test_a_criterion_that_does_not_take_projections_receives_logits():
    *tensors, targets = operands()
    loss = Margin()({"x": ProjectedClasses(*tensors, targets)})["x"]
    expected = Margin()({"x": Classes(F.linear(*tensors), targets)})["x"]
    torch.testing.assert_close(loss, expected)
