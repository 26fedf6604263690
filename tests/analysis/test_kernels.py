"""Kernels read off while a model reads, compared with sums over its tokens written as loops."""

import json

import pytest
import torch

from toolkit import build_model
from toolkit.analysis.kernels import (
    TapStatistics,
    TextBatch,
    extract_kernels,
    plot_kernels,
)
from toolkit.analysis.kernels_plot import (
    KernelRows,
    draw_kernels,
    sort_channels,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import KernelsConfig
from toolkit.models.interface import Inputs
from toolkit.training.run import run


@pytest.fixture
def drawn(trained, tmp_path, capsys):
    """The JSON lines that drawing a small run's kernels gives, and the text on stderr."""

    def draw(*more, text="the cat sat on a mat\n", **options):
        (tmp_path / "text").write_text(text)
        sentences = str(tmp_path / "text") if text else None
        where = {
            "path": [str(trained), *more],
            "output": str(tmp_path / "k.png"),
            "json": "-",
            "sentences": sentences,
        }
        plot_kernels(KernelsConfig(**{**where, **options}))
        captured = capsys.readouterr()
        return [json.loads(line) for line in captured.out.splitlines()], captured.err

    return draw


def test_plot_kernels_draws_prints_and_writes_every_kernel(drawn, tmp_path):
    records, captured = drawn()
    assert [(r["event"], r["layer"], r["kernel"], r["by"]) for r in records] == [
        ("kernel", 1, "fixed", "head"),
        ("kernel", 1, "query", "head"),
    ]
    assert len(records[1]["mean"]) == 2 and len(records[1]["deviation"][0]) == 17
    assert "layer  kernel  head" in captured and (tmp_path / "k.png").exists()


def test_plot_kernels_without_text_reports_omitted_kernels(drawn):
    records, captured = drawn(text="")
    assert [r["kernel"] for r in records] == ["fixed"]
    assert "query kernels depend on the text. Pass --sentences FILE to draw" in captured


def test_plot_kernels_rejects_a_model_without_kernels(config, drawn, tmp_path):
    shape = {"arch": "bert_tiny", "max_update": 1, "save_dir": str(tmp_path / "bert")}
    run(config(**shape))
    with pytest.raises(ToolkitError, match=r"requires a model with kernels, .* has none. Draw"):
        drawn(path=[str(tmp_path / "bert")])


@pytest.mark.parametrize(("option", "last"), [("layers", 1), ("heads", 2)])
def test_plot_kernels_rejects_unknown_layers_and_heads(drawn, option, last):
    with pytest.raises(
        ToolkitError, match=rf"{option} of .* must be between 1 and {last}, but one"
    ):
        drawn(**{option: [9]})


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
    found = extract_kernels(encoder, [text])[0]
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
    found = extract_kernels(encoder, [text])[0]
    key = next(k for k in found if (k.layer, k.name) == (1, "key"))
    taps = attention.map.terms[1].kernels[0](seen[-1]).detach().transpose(1, 2)[text.included]
    assert key.mean[0][1] == pytest.approx(taps[:, 0, 3].mean().item(), abs=1e-6)


def test_extract_kernels_of_several_batches_equals_one_batch(encoder, text):
    rows = [
        TextBatch(
            Inputs(*(x[i : i + 1] if isinstance(x, torch.Tensor) else x for x in text.inputs)),
            text.included[i : i + 1],
        )
        for i in range(3)
    ]
    whole, parts = (extract_kernels(encoder, t)[0] for t in ([text], rows))
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(torch.tensor(a.mean), torch.tensor(b.mean))


def test_taps_of_longer_sentences_are_aligned_at_offset_zero():
    statistics = TapStatistics(of_key=False)
    for taps in ([1.0, 2.0, 3.0], [1.0] * 5, [1.0, 2.0, 3.0]):
        statistics.update(torch.tensor(taps).expand(1, 1, 2, -1), torch.ones(1, 2).bool())
    assert statistics.rows()[0] == [pytest.approx([1, 1, 5 / 3, 7 / 3, 1])]


def test_extract_kernels_gives_convolutions_by_channel():
    options = {**SHAPE, "fixed": False, "dynamic": False, "depthwise": True, "convolve": ["key"]}
    model = build_model("composite_bert_tiny", vocabulary_size=20, **options)
    found = extract_kernels(model)[0]
    assert [k.name for k in found] == ["key convolution", "depthwise"] * 2
    weight = model.layers[0].attention.values.convolution.convolution.weight
    assert found[1].by == "channel" and found[1].mean == weight[:, 0].double().tolist()


def test_extract_kernels_leaves_the_model_unchanged(encoder, text):
    assert extract_kernels(build_model("bert_tiny", vocabulary_size=20)) == ([], [])
    encoder.train()
    extract_kernels(encoder, [text])
    assert encoder.training and not any(m._forward_hooks for m in encoder.modules())


def test_extract_kernels_gives_offsets_from_the_query():
    tables = {"positions": "none", "position_table": True, "relative_table": True}
    sizes = {"tokens": 9, "characters": 5}
    encoder = build_model("conv_san_ud", sizes=sizes, layers=2, convolution="none", **tables)
    (kernel,) = extract_kernels(encoder)[0]
    assert (kernel.layer, kernel.name, kernel.offsets[:2]) == (1, "reversed", [-59, -58])
    numbers = encoder.layers[0].attention.map.terms[1].kernels[0].numbers
    assert kernel.mean[0][59 + 3] == pytest.approx(numbers[0, 60 - 3].item())  # key 3 to the right


HEADS = KernelRows(1, "query", "head", range(-4, 5), [[0.5] * 9, [-1.0] * 9], [[0.1] * 9] * 2)
CHANNELS = KernelRows(
    2,
    "depthwise",
    "channel",
    [-1, 0, 1],
    [[3.0, 1.0, 2.0], [0.0, 1.0, -9.0], [9.0, 1.0, 0.0]],
    None,
)


def test_kernel_rows_select_heads_and_crop_offsets():
    found = HEADS.select([2], 1)
    assert found.offsets == [-1, 0, 1] and found.mean == [[-1.0] * 3]
    assert found.deviation == [[0.1] * 3] and found.to_record()["heads"] == [2]
    assert CHANNELS.select([7], 1).mean == CHANNELS.mean


OFFSETS = [-1, 0, 1]


def heads(layer, name="fixed", deviation=None):
    return KernelRows(layer, name, "head", OFFSETS, [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]], deviation)


def channels(layer):
    rows = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]
    return KernelRows(layer, "depthwise", "channel", OFFSETS, rows, None)


@pytest.fixture
def axes():
    def every(fig):
        return [*fig.axes, *(a for sub in fig.subfigs for a in every(sub))]

    return lambda fig: list(dict.fromkeys(every(fig)))


def test_draw_kernels_sorts_channels_by_next_minus_previous(axes):
    assert sort_channels(channels(1)) == [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]
    panel, _ = axes(draw_kernels({"run": [channels(4)]}))
    assert panel.get_title() == "layer 4, depthwise"
    assert panel.images[0].get_clim() == (-1.0, 1.0)  # white is zero
