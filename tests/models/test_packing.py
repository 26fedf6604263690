"""Encoders without padding and with attention in one kernel: the states of the plain encoder.

The kernel is replaced by its equation in double precision, which runs on a CPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import pytest
import torch

from tests.gpu.attention_cases import exact_attention
from toolkit.common.registry import ARCHITECTURES
from toolkit.models import encoder as encoder_module
from toolkit.models.interface import Inputs, Sizes
from toolkit.models.packing import MULTIPLE, Packing, keep_padding, pack_padding
from toolkit.nn.attention import maps

SHAPE = {"layers": 2, "width": 16, "heads": 2, "embedding_width": 8, "max_positions": 12}
VARIANTS = {
    "bert": ("bert_tiny", {}),
    "composite": ("composite_bert_tiny", {"radius": 2}),
    "one term": ("composite_bert_tiny", {"radius": 2, "fixed": False}),
    "key": ("composite_bert_tiny", {"radius": 2, "key_dynamic": True, "absolute_positions": True}),
    "depthwise": ("composite_bert_tiny", {"radius": 2, "depthwise": True}),
    "convbert": ("convbert_tiny", {"kernel_size": 3}),
    "rope": ("bert_tiny", {"positions": ["rope", "fixed"], "radius": 2}),
    "sinusoidal": ("bert_tiny", {"positions": ["sinusoidal"]}),
}
LENGTHS = torch.tensor([7, 12, 1, 4])
PADDING = torch.arange(12) >= LENGTHS[:, None]
PACKED = ("bert", "composite", "one term", "key", "rope", "sinusoidal")


def build(name: str):
    torch.manual_seed(0)
    arch, options = VARIANTS[name]
    entry = ARCHITECTURES[arch]
    config = dataclasses.replace(entry.config, **SHAPE, **options)
    model = entry.factory(config, Sizes(tokens=30)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def make_inputs(padding: torch.Tensor | None = PADDING, **others: torch.Tensor) -> Inputs:
    torch.manual_seed(1)
    tokens = torch.randint(30, (4, 12))
    segments = torch.randint(2, (4, 12))
    return Inputs(tokens, segments=segments, padding=padding, **others)


def attend(qkv, tables, rows, *, scale, dropout, causal):
    assert not dropout
    return exact_attention(qkv, tables, rows, scale=scale, causal=causal)


@pytest.fixture
def kernel():
    """The kernel runs on a CPU; its calls are recorded."""
    with (
        patch.object(encoder_module, "kernel_runs", lambda *of: True),
        patch.object(maps, "relative_attention", side_effect=attend) as calls,
    ):
        yield calls


def packed(inputs: Inputs, pack: Callable[..., Packing | None] = pack_padding) -> Inputs:
    return inputs._replace(packing=pack(inputs.padding))


def states_and_gradients(model, inputs, selected=None):
    """States of real tokens, and the gradients of all parameters of a function of them."""
    states = model(inputs, selected).states
    if selected is None and inputs.padding is not None:
        states = states[~inputs.padding]
    torch.manual_seed(2)
    gradients = torch.autograd.grad(
        (states * torch.randn_like(states)).sum(), list(model.parameters()), allow_unused=True
    )
    return [states, *(g for g in gradients if g is not None)]


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("name", VARIANTS)
def test_states_and_gradients_do_not_depend_on_the_kernel(name, kernel):
    model, inputs = build(name), make_inputs(None)
    found = states_and_gradients(model, inputs)
    assert kernel.call_count == 2
    model.uses_packing = False
    assert_equal(found, states_and_gradients(model, inputs))


@pytest.mark.parametrize("name", VARIANTS)
def test_states_and_gradients_do_not_depend_on_packing(name, kernel):
    model, inputs = build(name), make_inputs()
    found = states_and_gradients(model, packed(inputs))
    rows = {len(call.args[0]) for call in kernel.call_args_list}
    assert rows == {MULTIPLE if name in PACKED else PADDING.numel()}
    assert_equal(found, states_and_gradients(model, inputs))


@pytest.mark.parametrize("name", VARIANTS)
def test_selected_states_do_not_depend_on_packing(name, kernel):
    model, inputs = build(name), make_inputs()
    selected = torch.tensor([1, 6, 13, 23, 24, 39, 36])
    found = states_and_gradients(model, packed(inputs), selected)
    assert_equal(found, states_and_gradients(model, inputs, selected))


@pytest.mark.parametrize("name", VARIANTS)
def test_states_and_gradients_do_not_depend_on_padding_that_is_kept(name, kernel):
    model, inputs = build(name), make_inputs()
    found = states_and_gradients(model, packed(inputs, keep_padding))
    assert {len(call.args[0]) for call in kernel.call_args_list} == {PADDING.numel()}
    assert not any(call.args[2].covers_all for call in kernel.call_args_list)
    assert_equal(found, states_and_gradients(model, inputs))


@pytest.mark.parametrize("name", ["bert", "composite", "key"])
def test_packed_tokens_keep_their_position_ids(name, kernel):
    positions = torch.stack([torch.randperm(12) for _ in range(4)])
    model, inputs = build(name), make_inputs(positions=positions)
    assert_equal(states_and_gradients(model, packed(inputs)), states_and_gradients(model, inputs))


def test_states_at_padding_are_zero_after_packing(kernel):
    states = build("composite")(packed(make_inputs())).states
    assert not states[PADDING].any()


def test_padding_that_was_not_packed_takes_the_plain_path(kernel):
    build("composite")(make_inputs())
    assert not kernel.called


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("composite_bert_tiny", {"radius": 32}),
        ("composite_bert_tiny", {"convolve": ["query"]}),
        ("convbert_tiny", {"convolve_padding": True}),
    ],
)
def test_architectures_outside_of_the_kernel_do_not_use_it(arch, options):
    entry = ARCHITECTURES[arch]
    model = entry.factory(dataclasses.replace(entry.config, **options), Sizes(tokens=30))
    assert not model.uses_packing


def test_packed_rows_are_sentences_and_filler():
    packing = pack_padding(PADDING)
    assert packing is not None
    assert packing.lengths.tolist() == [7, 12, 1, 4, MULTIPLE - 24]
    assert packing.starts.tolist() == [0, 7, 19, 20, 24]
    assert packing.sources[:24].tolist() == (~PADDING).flatten().nonzero()[:, 0].tolist()
    assert packing.sources[24:].tolist() == [0] * (MULTIPLE - 24)
    numbers = torch.arange(PADDING.numel()).view_as(PADDING)
    assert packing.pack(numbers)[0, packing.rows[~PADDING]].equal(numbers[~PADDING])


def test_no_packed_sentence_is_longer_than_the_kernels_are_told():
    """Filler that no block covers would leave numbers of another tensor in its states."""
    packing = pack_padding(torch.tensor([[False, False, True], [False, True, True]]))
    assert packing is not None
    assert packing.lengths.max() == MULTIPLE - 3
    assert packing.list_rows(None).max_length >= packing.lengths.max()


def test_padding_inside_of_a_sentence_cannot_be_packed():
    assert pack_padding(torch.tensor([[False, True, False]])) is None


def test_kept_padding_leaves_shapes_that_follow_from_the_batch():
    one, other = keep_padding(PADDING), keep_padding(PADDING.roll(1, 0))
    assert one is not None and other is not None
    assert one.lengths.tolist() == [7, 12, 1, 4, 0] and one.starts.tolist() == [0, 12, 24, 36, 48]
    assert [t.shape for t in one[:3]] == [t.shape for t in other[:3]] and one.tokens == other.tokens
    assert keep_padding(torch.tensor([[False, True, False]])) is None


def test_unpacking_is_the_inverse_of_packing_and_of_its_gradient():
    packing = pack_padding(PADDING)
    assert packing is not None
    x = torch.randn(1, len(packing.sources), 3, dtype=torch.double, requires_grad=True)
    assert packing.unpack(x)[~PADDING].equal(x[0, : packing.tokens])
    torch.autograd.gradcheck(partial(type(packing).unpack, packing), x)
