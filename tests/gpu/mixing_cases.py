"""The Triton kernels of mixed attention maps against plain operations in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.nn.attention import (
    AttentionInputs,
    Content,
    MixedMaps,
    Offsets,
    Relative,
    RelativeToKey,
    SequenceContext,
    SharedKeyKernel,
    SharedQueryKernel,
    two_stream_maps,
)
from toolkit.nn.ops.attention import MASKED_SCORE
from toolkit.nn.ops.kernel_inputs import MapSource, view_map
from toolkit.nn.ops.mixed_attention import mix_attention

WIDTH, RELATIVE_WIDTH = 4, 6


@dataclass(frozen=True)
class MixingCase:
    batch: int
    length: int
    heads: tuple[int, ...] = (3, 3, 3, 2, 5)
    kinds: tuple[int, ...] = (0, 1, 2, 0, 0)
    dtype: str = "float32"
    padding: bool = False
    dropout: float = 0.0
    out: int = 5
    word_heads: int = 3


Tensors = list[Tensor]


def make_inputs(case: MixingCase) -> tuple[Tensors, Tensors, Tensor | None]:
    """Maps and taps, weight, bias and slope, and padding."""
    torch.manual_seed(0)
    dtype, columns = getattr(torch, case.dtype), (case.length, 2 * case.length, 2 * case.length)
    sources = [
        torch.randn(heads, case.batch, case.length, columns[kind]).to(dtype).transpose(0, 1)
        for heads, kind in zip(case.heads, case.kinds, strict=True)
    ]
    weight = (torch.randn(case.out, sum(case.heads)) / 3).to(dtype).float()
    parameters = [weight, torch.randn(case.out), torch.linspace(-0.5, 0.5, case.out)]
    padding = torch.zeros(case.batch, case.length, dtype=torch.bool)
    padding[-1, case.length // 2 :] = True
    return sources, parameters, padding if case.padding else None


def run_kernels(sources: Tensors, parameters: Tensors, padding: Tensor | None, case: MixingCase):
    """Scores, weights of words and of positions."""
    given = [MapSource(t, kind) for t, kind in zip(sources, case.kinds, strict=True)]
    options = {"dropout": case.dropout, "word_heads": case.word_heads}
    return mix_attention(given, *parameters, padding, **options)


def run_plain(sources: Tensors, parameters: Tensors, padding: Tensor | None, case: MixingCase):
    weight, bias, slope = parameters
    maps = [view_map(t, kind) for t, kind in zip(sources, case.kinds, strict=True)]
    scores = F.prelu(F.conv2d(torch.cat(maps, 1), weight[:, :, None, None], bias), slope)
    masked = scores
    if padding is not None:
        masked = scores + padding[:, None, None].to(scores) * MASKED_SCORE
    weights = masked.softmax(-1)
    return scores, weights[:, : case.word_heads], weights[:, case.word_heads :]


def differentiate(run, case: MixingCase, kept: Tensor | None = None, dtype=None):
    """Results and gradients; `kept` are the factors of dropout."""
    sources, parameters, padding = make_inputs(case)
    sources, parameters = (
        [t.to(dtype or t.dtype).requires_grad_() for t in tensors]
        for tensors in (sources, parameters)
    )
    scores, *weights = run(sources, parameters, padding, case)
    if kept is not None:
        weights = [w * k for w, k in zip(weights, kept.split((3, 2), 1), strict=True)]
    results = scores, *weights
    torch.manual_seed(2)
    gradients = [torch.randn(r.shape).to(scores) for r in results]
    return *results, *torch.autograd.grad(results, [*parameters, *sources], gradients)


def compare(case: MixingCase) -> list[float]:
    """Errors of results and gradients, as fractions of their norms."""
    found = differentiate(run_kernels, case)
    kept = None
    if case.dropout:
        dropped = torch.cat(found[1:3], 1) == 0
        kept = (~dropped).double() / (1 - case.dropout)
        padding = make_inputs(case)[2]
        real = ~dropped if padding is None else ~dropped[~padding[:, None, None].expand_as(dropped)]
        assert abs(1 - case.dropout - real.float().mean()) < 0.03
    exact = differentiate(run_plain, case, kept, torch.float64)
    assert all(torch.isfinite(each).all() for each in found)
    return [float((a.double() - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]


def repeat(case: MixingCase) -> tuple[bool, bool]:
    """Whether results have the same bits again: with the same seed, and with another one."""
    inputs, runs = make_inputs(case), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(run_kernels(*inputs, case))
    same = [all(map(torch.equal, runs[0], other)) for other in runs[1:]]
    return same[0], same[1]


def build_taco_maps() -> MixedMaps:
    torch.manual_seed(0)
    shape = 3, WIDTH, RELATIVE_WIDTH
    words = [
        Content(WIDTH),
        Relative([SharedQueryKernel(*shape)]),
        RelativeToKey([SharedKeyKernel(*shape)]),
    ]
    heads = {"word_heads": 3, "position_heads": 2, "uses_previous_scores": True}
    maps = MixedMaps(words, [Content(WIDTH)], 0.0, **heads)
    nn.init.uniform_(maps.slope.weight, -0.5, 0.5)
    return maps


def run_taco_maps(length: int, positions: Tensor | None, *, kernels: bool) -> Tensors:
    """Results and gradients of a layer's maps, by the kernels or by plain operations."""
    maps = build_taco_maps()
    offsets = Offsets(positions, length, torch.device("cpu"))
    rows = 2 * offsets.max_offset + 1
    vectors = torch.randn(rows, RELATIVE_WIDTH, requires_grad=True)
    given = vectors
    if kernels:
        given = F.pad(vectors, (0, 0, 0, 1))
    sequence = SequenceContext(offsets, None, given)
    q, k = (torch.randn(2, 5, length, WIDTH, requires_grad=True) for _ in range(2))
    previous = torch.randn(2, 5, length, length, requires_grad=True)
    words, others = (
        AttentionInputs(q[:, part], k[:, part], k[:, part], q, sequence)
        for part in (slice(3), slice(3, 5))
    )
    with patch.object(two_stream_maps, "triton_runs", lambda *of: kernels):
        results = maps(words, others, previous)
    inputs = [q, k, previous, vectors, *maps.parameters()]
    gradients = [torch.randn(r.shape) for r in results]
    return [*(r.detach() for r in results), *torch.autograd.grad(results, inputs, gradients)]


def compare_taco_maps(length: int, positions: list[list[int]] | None) -> list[float]:
    ids = None if positions is None else torch.tensor(positions)
    found, plain = (run_taco_maps(length, ids, kernels=kernels) for kernels in (True, False))
    return [float((a - b).norm() / b.norm()) for a, b in zip(found, plain, strict=True)]
