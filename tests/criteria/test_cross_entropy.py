from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from toolkit import criteria
from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED, Binary, Classes, MaskedClasses, ProjectedClasses
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig

ROWS, CLASSES = 32, 11
COUNT = 2 * ROWS + 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(criteria, "BLOCK", ROWS * CLASSES)


def prediction(dtype: torch.dtype = torch.float64) -> Classes:
    torch.manual_seed(0)
    targets = torch.randint(CLASSES, (COUNT,))
    targets[[1, -1]] = IGNORED
    return Classes((3 * torch.randn(COUNT, CLASSES)).to(dtype).requires_grad_(), targets)


def total(p: Classes | ProjectedClasses, smoothing: float = 0.0, z: float = 0.0) -> torch.Tensor:
    config = CrossEntropyConfig(label_smoothing=smoothing, z_loss=z)
    return CrossEntropy(config)({"mlm": p})["mlm"]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_and_its_gradient_equal_torchs(smoothing):
    p = prediction()
    expected = F.cross_entropy(
        p.logits, p.targets, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
    )
    loss = total(p, smoothing)
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(2.5 * it, p.logits)[0] for it in (loss, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_z_loss_and_its_gradients_equal_a_loop_and_are_left_out_without_gradients(smoothing):
    p, width = prediction(), 4
    states = torch.randn(COUNT, width, dtype=torch.float64, requires_grad=True)
    table = torch.randn(CLASSES, width, dtype=torch.float64, requires_grad=True)
    projected = ProjectedClasses(states, table, None, p.targets)

    def loop(logits):
        rows = [row for row, target in zip(logits, p.targets, strict=True) if target != IGNORED]
        return 0.3 * sum(row.exp().sum().log() ** 2 for row in rows)

    pairs = [(p, p.logits, (p.logits,)), (projected, states @ table.T, (states, table))]
    for given, logits, leaves in pairs:
        plain, loss = total(given, smoothing), total(given, smoothing, z=0.3)
        torch.testing.assert_close(loss - plain, loop(logits))
        found = torch.autograd.grad(2.5 * loss, leaves)
        for one, *others in zip(
            found,
            torch.autograd.grad(2.5 * plain, leaves),
            torch.autograd.grad(2.5 * loop(logits), leaves),
            strict=True,
        ):
            torch.testing.assert_close(one, sum(others))
        with torch.no_grad():
            assert total(given, smoothing, z=0.3) == total(given, smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_bf16_logits_is_summed_in_fp32(smoothing):
    p = prediction(torch.bfloat16)
    exact = p.logits.detach().double().requires_grad_()
    loss, expected = total(p, smoothing), total(Classes(exact, p.targets), smoothing)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    gradients = [torch.autograd.grad(*pair)[0] for pair in ((loss, p.logits), (expected, exact))]
    torch.testing.assert_close(gradients[0].double(), gradients[1], atol=0.005, rtol=0.01)


@pytest.mark.parametrize("classes", [17, 3000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_of_a_nearly_certain_class_is_rounded_once_in_bf16(classes, smoothing):
    torch.manual_seed(0)
    targets = torch.randint(classes, (200,))
    logits = torch.randn(200, classes)
    logits[torch.arange(200), targets] += 8 if classes == 17 else 14
    logits = logits.bfloat16().requires_grad_()
    exact = logits.detach().double().requires_grad_()
    criterion = CrossEntropy(CrossEntropyConfig(label_smoothing=smoothing))
    criterion({"x": Classes(logits, targets)})["x"].backward()
    F.cross_entropy(exact, targets, reduction="sum", label_smoothing=smoothing).backward()
    difference = (logits.grad.double() - exact.grad).norm() / exact.grad.norm()
    assert difference < 0.003


def test_ignored_targets_add_no_loss_and_no_gradient():
    p = prediction()
    valid = p.targets != IGNORED
    torch.testing.assert_close(total(p), total(Classes(p.logits[valid], p.targets[valid])))
    total(p).backward()
    assert not p.logits.grad[~valid].any()


def test_cross_entropy_of_no_predictions_is_0():
    logits = torch.zeros(0, CLASSES, requires_grad=True)
    loss = total(Classes(logits, torch.zeros(0, dtype=torch.long)))
    loss.backward()
    assert loss == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_binary_cross_entropy_equals_that_of_two_classes(smoothing):
    logits, answers = torch.tensor([2.0, -0.5, 30.0, 7.0], dtype=torch.float64), [1, 0, 0, IGNORED]
    loss = total(Binary(logits, torch.tensor(answers)), smoothing)
    by_hand = 0.0
    for score, answer in zip(logits.tolist()[:3], answers[:3], strict=True):
        log_yes, log_no = -math.log1p(math.exp(-score)), -score - math.log1p(math.exp(-score))
        p_yes = (1 - smoothing) * answer + smoothing / 2
        by_hand -= p_yes * log_yes + (1 - p_yes) * log_no
    assert loss.item() == pytest.approx(by_hand, abs=1e-9)


def test_label_smoothing_is_rejected_for_masked_classes():
    masked = MaskedClasses(*prediction())
    assert total(masked) == total(prediction())
    with pytest.raises(ToolkitError, match=r"label_smoothing must be 0 .* but is 0\.1"):
        total(masked, 0.1)
