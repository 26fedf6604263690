from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED, Binary, Classes, MaskedClasses, cross_entropy
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig

ROWS, CLASSES = 32, 11
PLACES = 2 * ROWS + 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(cross_entropy, "BLOCK", ROWS * CLASSES)


def prediction(dtype: torch.dtype = torch.float64) -> Classes:
    torch.manual_seed(0)
    targets = torch.randint(CLASSES, (PLACES,))
    targets[[1, -1]] = IGNORED
    return Classes((3 * torch.randn(PLACES, CLASSES)).to(dtype).requires_grad_(), targets)


def total(p: Classes, smoothing: float = 0.0) -> torch.Tensor:
    return CrossEntropy(CrossEntropyConfig(label_smoothing=smoothing))({"mlm": p})["mlm"]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradient_equal_torchs(smoothing):
    p = prediction()
    want = F.cross_entropy(
        p.logits, p.targets, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
    )
    got = total(p, smoothing)
    torch.testing.assert_close(got, want)
    gradients = [torch.autograd.grad(2.5 * loss, p.logits)[0] for loss in (got, want)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bf16_logits_are_summed_in_fp32(smoothing):
    p = prediction(torch.bfloat16)
    exact = p.logits.detach().double().requires_grad_()
    got, want = total(p, smoothing), total(Classes(exact, p.targets), smoothing)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, rtol=1e-6, atol=0)
    gradients = [torch.autograd.grad(*pair)[0] for pair in ((got, p.logits), (want, exact))]
    torch.testing.assert_close(gradients[0].double(), gradients[1], atol=0.005, rtol=0.01)


@pytest.mark.parametrize("classes", [17, 3000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_of_what_is_near_certain_is_rounded_only_once_in_bf16(classes, smoothing):
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


def test_places_without_a_target_count_for_nothing():
    p = prediction()
    real = p.targets != IGNORED
    torch.testing.assert_close(total(p), total(Classes(p.logits[real], p.targets[real])))
    total(p).backward()
    assert not p.logits.grad[~real].any()


def test_no_places_at_all_cost_nothing():
    logits = torch.zeros(0, CLASSES, requires_grad=True)
    loss = total(Classes(logits, torch.zeros(0, dtype=torch.long)))
    loss.backward()
    assert loss == 0


def test_equal_scores_cost_the_logarithm_of_the_number_of_classes():
    loss = total(Classes(torch.zeros(1, CLASSES), torch.tensor([4])))
    assert loss.item() == pytest.approx(torch.tensor(CLASSES).log().item())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_yes_or_no_are_two_classes(smoothing):
    logits, answers = torch.tensor([2.0, -0.5, 30.0, 7.0], dtype=torch.float64), [1, 0, 0, IGNORED]
    loss = total(Binary(logits, torch.tensor(answers)), smoothing)
    by_hand = 0.0
    for score, answer in zip(logits.tolist()[:3], answers[:3], strict=True):
        log_yes, log_no = -math.log1p(math.exp(-score)), -score - math.log1p(math.exp(-score))
        share = (1 - smoothing) * answer + smoothing / 2
        by_hand -= share * log_yes + (1 - share) * log_no
    assert loss.item() == pytest.approx(by_hand, abs=1e-9)


def test_answers_that_are_not_asked_for_have_no_gradient():
    logits = torch.tensor([0.3, 0.4], requires_grad=True)
    total(Binary(logits, torch.tensor([IGNORED, 0]))).backward()
    assert logits.grad[0] == 0 and logits.grad[1] > 0


def test_a_share_of_smoothing_beyond_one_is_refused():
    with pytest.raises(ToolkitError, match=r"label_smoothing must be at least 0 .* is 1\.5"):
        CrossEntropyConfig(label_smoothing=1.5)


def test_smoothing_towards_what_is_no_answer_is_refused():
    given = MaskedClasses(*prediction())
    assert total(given) == total(prediction())
    with pytest.raises(ToolkitError, match=r"label_smoothing must be 0 .* but is 0\.1"):
        total(given, 0.1)
