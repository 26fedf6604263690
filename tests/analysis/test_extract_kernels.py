"""Kernels read off while a model reads, compared with sums over its tokens written as loops."""

import pytest
import torch

from toolkit import build_model
from toolkit.analysis.extract_kernels import TextBatch, add_sums, extract_kernels, name_kernels
from toolkit.models.interface import Inputs
from toolkit.nn.attention import FixedKernel, Relative

SHAPE = {"layers": 2, "width": 16, "heads": 2, "embedding_width": 8, "radius": 2}


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    found = build_model("composite_bert_tiny", vocabulary_size=20, key_dynamic=True, **SHAPE)
    for layer in found.layers:
        torch.nn.init.normal_(layer.attention.map.terms[0].kernels[0].taps)
    return found


@pytest.fixture
def text():
    tokens = torch.randint(20, (3, 5))
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    counted = ~padding
    counted[:, 0] = False
    return TextBatch(Inputs(tokens=tokens, padding=padding), counted)


def test_extract_kernels_without_text_gives_only_fixed_kernels(encoder):
    kernels, unknown = extract_kernels(encoder)
    assert [(k.layer, k.name, k.by) for k in kernels] == [
        (1, "fixed", "head"),
        (2, "fixed", "head"),
    ]
    assert unknown == ["query", "key"] and kernels[0].offsets == [-2, -1, 0, 1, 2]
    taps = encoder.layers[1].attention.map.terms[0].kernels[0].taps
    assert kernels[1].mean == taps.detach().double().tolist() and kernels[1].deviation is None


@pytest.mark.parametrize("name", ["xl", "deberta"])
def test_extract_kernels_reads_those_that_a_fast_path_would_skip(text, name):
    shape = {option: value for option, value in SHAPE.items() if option != "radius"}
    encoder = build_model("bert_tiny", vocabulary_size=20, positions=[name], **shape)
    kernels, unknown = extract_kernels(encoder, [text])
    assert not unknown and len(kernels) == (2 if name == "xl" else 4)
    assert kernels[0].offsets == list(range(-4, 5)) and kernels[0].deviation is not None


def test_extract_kernels_averages_query_kernels_over_included_tokens(encoder, text):
    seen = []
    attention = encoder.layers[1].attention
    attention.project.register_forward_hook(lambda module, given, p: seen.append(p))
    found = extract_kernels(encoder, [text]).kernels
    query = next(k for k in found if (k.layer, k.name) == (2, "query"))
    taps = attention.map.terms[0].kernels[1](seen[-1]).detach()
    values = [taps[b, 1, s, 3].item() for b in range(3) for s in range(5) if text.included[b, s]]
    want = torch.tensor(values, dtype=torch.float64)
    assert query.mean[1][3] == pytest.approx(want.mean().item(), abs=1e-6)
    assert query.deviation[1][3] == pytest.approx(want.std(correction=0).item(), abs=1e-5)


def test_extract_kernels_reverses_the_taps_of_keys(encoder, text):
    seen = []
    attention = encoder.layers[0].attention
    attention.project.register_forward_hook(lambda module, given, p: seen.append(p))
    found = extract_kernels(encoder, [text]).kernels
    key = next(k for k in found if (k.layer, k.name) == (1, "key"))
    taps = attention.map.terms[1].kernels[0](seen[-1]).detach().transpose(1, 2)[text.included]
    assert key.mean[0][1] == pytest.approx(taps[:, 0, 3].mean().item(), abs=1e-6)


def test_extract_kernels_of_several_batches_equals_one_batch(encoder, text):
    rows = [
        TextBatch(
            Inputs(*(None if x is None else x[i : i + 1] for x in text.inputs)),
            text.included[i : i + 1],
        )
        for i in range(3)
    ]
    whole, parts = (extract_kernels(encoder, t).kernels for t in ([text], rows))
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(torch.tensor(a.mean), torch.tensor(b.mean))


def test_extract_kernels_aligns_taps_at_offset_zero():
    [total] = add_sums([torch.tensor([[1.0, 2, 3]])], [torch.ones(1, 5)])
    assert total.tolist() == [[1, 2, 3, 4, 1]]


def test_extract_kernels_gives_convolutions_by_channel():
    options = {**SHAPE, "fixed": False, "dynamic": False, "depthwise": True, "convolve": ["key"]}
    model = build_model("composite_bert_tiny", vocabulary_size=20, **options)
    found = extract_kernels(model).kernels
    assert [k.name for k in found] == ["key convolution", "depthwise"] * 2
    weight = model.layers[0].attention.values.convolution.convolution.weight
    assert found[1].by == "channel" and found[1].mean == weight[:, 0].double().tolist()


def test_extract_kernels_leaves_the_model_unchanged(encoder, text):
    assert extract_kernels(build_model("bert_tiny", vocabulary_size=20)) == ([], [])
    encoder.train()
    extract_kernels(encoder, [text])
    assert encoder.training and not any(m._forward_hooks for m in encoder.modules())


def test_extract_kernels_numbers_equal_names():
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([Relative([FixedKernel(1, 1), FixedKernel(1, 2)])])
    names = name_kernels(model, ["layers.0.kernels.0", "layers.0.kernels.1"])
    assert list(names.values()) == ["fixed 1", "fixed 2"]


def test_extract_kernels_gives_offsets_from_the_query():
    tables = {"positions": "none", "position_table": True, "relative_table": True}
    sizes = {"tokens": 9, "characters": 5}
    encoder = build_model("conv_san_ud", sizes=sizes, layers=2, convolution="none", **tables)
    (kernel,) = extract_kernels(encoder).kernels
    assert (kernel.layer, kernel.name, kernel.offsets[:2]) == (1, "reversed", [-59, -58])
    numbers = encoder.layers[0].attention.map.terms[1].kernels[0].numbers
    assert kernel.mean[0][59 + 3] == pytest.approx(numbers[0, 60 - 3].item())  # key 3 to the right
