"""The Triton kernel of the cross-entropy against torch's, in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from toolkit.criteria import IGNORED, ProjectedClasses, cross_entropy as chunks
from toolkit.nn.ops import linear
from toolkit.nn.ops.kernels import cross_entropy as cross_entropy_kernels
from toolkit.nn.ops.linear import replace_by_gradient


@dataclass(frozen=True)
class LossCase:
    rows: int
    classes: int
    padded: int
    """Columns of the logits."""
    dtype: str = "float32"
    smoothing: float = 0.0
    scale: float = 1.0
    """Standard deviation of the logits."""


def compare(case: LossCase, columns: int = 16) -> tuple[float, float]:
    """Errors of the losses, and of the gradients, as fractions of the greatest number."""
    torch.manual_seed(0)
    logits = (case.scale * torch.randn(case.rows, case.padded)).to(getattr(torch, case.dtype))
    targets, valid = torch.randint(case.classes, (case.rows,)), torch.rand(case.rows) < 0.8
    expected = exact(logits, targets, valid, case)
    with patch.object(cross_entropy_kernels, "COLUMNS", columns):
        losses = replace_by_gradient(logits, targets, valid, case.classes, case.smoothing)
    assert not logits[:, case.classes :].any()
    assert not logits[~valid].any()
    assert not losses[~valid].any()
    found = losses, logits[:, : case.classes]
    errors = [
        float((a.double() - b).abs().max() / b.abs().max().clamp_min(1e-9))
        for a, b in zip(found, expected, strict=True)
    ]
    return errors[0], errors[1]


def exact(logits: Tensor, targets: Tensor, valid: Tensor, case: LossCase) -> tuple[Tensor, Tensor]:
    x = logits[:, : case.classes].double().requires_grad_()
    losses = F.cross_entropy(x, targets, reduction="none", label_smoothing=case.smoothing) * valid
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    return losses.detach(), gradient


def compare_chunks() -> float:
    """The greatest difference of a loss in chunks and its gradients with and without the kernel."""
    torch.manual_seed(0)
    tensors = [torch.randn(n, requires_grad=True) for n in ((37, 6), (11, 6), (11,))]
    targets = torch.randint(11, (37,))
    targets[[1, 8, -1]] = IGNORED

    def differentiate(by_kernel: bool) -> list[Tensor]:
        with (
            patch.object(chunks, "triton_runs", lambda *of: by_kernel),
            patch.dict(chunks.ROWS_PER_CHUNK, cpu=8),
            patch.dict(linear.CLASSES_MULTIPLE, cpu=8),
        ):
            projected = ProjectedClasses(*tensors, targets)
            loss = chunks._ProjectedCrossEntropy.apply(*projected, 0.1, 0.0)
            return [loss.detach(), *torch.autograd.grad(loss, tensors)]

    pairs = zip(differentiate(True), differentiate(False), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def follow_infinity(value: float) -> list[bool]:
    """Whether the losses of rows with such a logit, and without, are finite."""
    logits = torch.zeros(2, 20)
    logits[0, 3] = value
    targets = torch.zeros(2, dtype=torch.long)
    losses = replace_by_gradient(logits, targets, torch.ones(2, dtype=torch.bool), 20, 0.0)
    return losses.isfinite().tolist()
