import json
import math

import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.analysis.attention import (
    HeadMap,
    attention_maps,
    concentration,
    draw_maps,
    head_table,
    locality_table,
    measure_locality,
    plot_attention,
    uniform_concentration,
)
from toolkit.analysis.read_text import encode_sentence
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import AttentionConfig
from toolkit.models.interface import Inputs


@pytest.fixture
def drawn(trained, tmp_path, capsys):
    """The JSON lines that drawing a sentence's maps gives, and the text output."""

    def draw(sentence="the cat [MASK]", **options):
        output = str(tmp_path / "a.png")
        asked = {"path": [str(trained)], "sentence": sentence, "output": output, "json": "-"}
        plot_attention(AttentionConfig(**(asked | options)))
        captured = capsys.readouterr()
        return [json.loads(line) for line in captured.out.splitlines()], captured.err

    return draw


def maps_of(found):
    """The lines of the sentence and of its maps."""
    records, captured = found
    return [r for r in records if r["event"] != "concentration"], captured


@pytest.mark.slow
def test_plot_attention_draws_prints_and_writes_every_head(drawn, tmp_path):
    [sentence, *maps], captured = maps_of(drawn())
    assert sentence["tokens"][0] == "[CLS]" and sentence["tokens"][-2:] == ["[MASK]", "[SEP]"]
    assert [(m["layer"], m["head"]) for m in maps] == [(1, 1), (1, 2)]
    rows = torch.tensor(maps[0]["weights"])
    assert rows.shape == (len(sentence["tokens"]),) * 2
    torch.testing.assert_close(rows.sum(1), torch.ones(len(rows)))
    assert "layer  head" in captured and (tmp_path / "a.png").exists()


def test_plot_attention_averages_heads(drawn):
    [_, one, two], _ = maps_of(drawn())
    [_, mean], _ = maps_of(drawn(mean_heads=True))
    weights = [torch.tensor(m["weights"]) for m in (one, two, mean)]
    torch.testing.assert_close((weights[0] + weights[1]) / 2, weights[2])
    assert mean["head"] is None


@pytest.mark.slow
def test_plot_attention_draws_mean_maps_of_several_models(drawn, trained):
    [_, one, two, *_], _ = drawn()
    records, captured = drawn(mean=True, path=[str(trained)] * 2)
    assert [r["event"] for r in records] == [*["sentence", "map"] * 2, *["concentration"] * 4]
    weights = [torch.tensor(m["weights"]) for m in (one, two, records[1])]
    torch.testing.assert_close((weights[0] + weights[1]) / 2, weights[2])
    assert records[1]["layer"] is records[1]["head"] is None and "previous" not in captured


def test_plot_attention_reports_the_concentration(drawn):
    records, captured = drawn("the cat sat on a mat")
    mean, layer = (r for r in records if r["event"] == "concentration")
    assert mean["mean"] == layer["mean"] > 0 and (mean["layer"], layer["layer"]) == (None, 1)
    assert "C: attention to tokens at most 4 away" in captured and "1 sentence;" in captured


def test_plot_attention_draws_the_first_sentence_of_a_file(drawn, tmp_path):
    (tmp_path / "text").write_text("the cat\n\na mat and the cat saw how dogs run\n")
    records, _ = drawn("", sentences=str(tmp_path / "text"), mean_heads=True)
    assert records[0]["tokens"] == drawn("the cat")[0][0]["tokens"]
    assert [r["short"] + r["sentences"] for r in records if "short" in r] == [2, 2]


def test_head_table_gives_shares_of_attention():
    weights = [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]
    table = head_table([HeadMap(1, 1, weights)], [True, False, False])
    [row] = table.rows
    assert [cell.strip() for cell in row[2:]] == ["16.7%", "33.3%", "50.0%", "16.7%", "1.3"]


def test_plot_attention_rejects_long_sentences_and_unknown_heads(drawn):
    with pytest.raises(ToolkitError, match=r"--sentence must have at most 512 tokens for this mod"):
        drawn("the cat " * 500)
    with pytest.raises(ToolkitError, match=r"heads of .* must be between 1 and 2, but one is 3"):
        drawn(heads=[3])


SHAPE = {"layers": 2, "width": 16, "heads": 2, "embedding_width": 8}


def test_attention_maps_reproduce_the_states_of_the_encoder():
    torch.manual_seed(0)
    model = build_model("composite_bert_tiny", vocabulary_size=20, **SHAPE).train()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    inputs = Inputs(tokens=torch.randint(20, (2, 5)), padding=padding)
    seen, project = [], model.layers[1].attention.project
    project.register_forward_hook(lambda module, given, p: seen.append(p))
    first, second = attention_maps(model, inputs)
    assert first.shape == second.shape == (2, 2, 5, 5)
    torch.testing.assert_close(second.sum(-1), torch.ones(2, 2, 5))
    assert not second[1, :, :, 3:].any()  # padding is attended to by nobody
    model.eval()
    average = model.layers[1].attention.map.average(seen[0])
    torch.testing.assert_close(second @ seen[0].v, average)


def test_attention_maps_include_those_of_two_streams():
    torch.manual_seed(0)
    model = build_model("taco_tiny", vocabulary_size=20)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    maps = attention_maps(model, Inputs(torch.randint(20, (2, 5)), padding=padding))
    assert [tuple(m.shape) for m in maps] == [(2, 3, 5, 5)] * 2
    torch.testing.assert_close(maps[1].sum(-1), torch.ones(2, 3, 5))
    assert not maps[1][1, :, :, 3:].any()


LINES = ["the cat sat on a mat and saw", "how dogs run far and how the cat saw a dog", "the"]


@pytest.fixture
def learner(trained):
    return load_checkpoint(trained)


def near(learner, lines=LINES, **options):
    c = AttentionConfig(path=["run"], sentences="text", **options)
    return measure_locality("run", learner, lines, c)


def test_locality_is_the_mean_over_sentences(learner):
    expected = []
    for line in LINES[:2]:
        [layer] = attention_maps(
            learner.encoder, Inputs(torch.tensor([encode_sentence(learner, line)]))
        )
        expected.append(concentration(layer.mean(1)).item())
    everything, only = near(learner)
    assert everything.mean == pytest.approx(sum(expected) / 2, rel=1e-5)
    assert everything.deviation == pytest.approx(abs(expected[0] - expected[1]) / 2**0.5, rel=1e-3)
    assert (everything.layer, only.layer) == (None, 1) and only.mean == everything.mean


def test_locality_leaves_out_short_sentences(learner):
    short = [line for line in LINES if len(encode_sentence(learner, line)) < 6]
    assert (near(learner)[0].sentences, near(learner)[0].short) == (2, len(short)) == (2, 1)
    nothing = near(learner, ["the"])[0]
    assert nothing.mean is None and nothing.sentences == 0


def test_locality_includes_that_of_uniform_attention(learner):
    tokens = len(encode_sentence(learner, LINES[0]))
    assert near(learner, LINES[:1])[0].uniform == pytest.approx(uniform_concentration(tokens))


def test_locality_is_that_of_selected_heads(learner):
    one, two, both = (near(learner, LINES[:1], heads=h)[0] for h in ([1], [2], [1, 2]))
    rates = sorted([one.near_rate, two.near_rate])
    assert both.near_rate == pytest.approx(sum(rates) / 2, rel=1e-5)


def test_locality_of_narrow_windows_is_infinite(learner, monkeypatch):
    def diagonal(encoder, inputs, of):
        rows, length = inputs.tokens.shape
        return [of(torch.eye(length).expand(rows, 2, length, length))]

    monkeypatch.setattr("toolkit.analysis.attention.attention_maps", diagonal)
    found = near(learner)
    assert (found[0].mean, found[0].deviation, found[0].near_rate) == (math.inf, None, 1.0)
    assert "inf          -  100.0%" in locality_table(found, several=False).text()


def by_loops(weights):
    """Jiang et al. 2020, section 6.5, as it is written."""
    near = far = 0.0
    for i, row in enumerate(weights.tolist()):
        for j, weight in enumerate(row):
            if abs(i - j) <= 4:
                near += weight
            else:
                far += weight
    return near / far


def test_concentration_equals_the_sums_of_the_paper():
    maps = torch.randn(3, 11, 11, dtype=torch.float64).softmax(-1)
    expected = torch.tensor([by_loops(m) for m in maps], dtype=torch.float64)
    torch.testing.assert_close(concentration(maps), expected, rtol=1e-12, atol=0)


def test_concentration_ignores_padding():
    scores = torch.randn(1, 8, 8)
    alone = concentration(scores.softmax(-1))
    padded = torch.full((1, 10, 10), -torch.inf)
    padded[:, :8, :8], padded[:, 8:, 8:] = scores, 0.0
    padding = torch.arange(10)[None] >= 8
    torch.testing.assert_close(concentration(padded.softmax(-1), padding), alone)


@pytest.mark.parametrize("tokens", [6, 9, 40])
def test_uniform_concentration_equals_that_of_a_uniform_map(tokens):
    even = torch.full((1, tokens, tokens), 1 / tokens)
    assert uniform_concentration(tokens) == pytest.approx(concentration(even).item())


TOKENS = ["[CLS]", "word", "[SEP]"]
WEIGHTS = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]]


def maps(layers, heads, columns, tokens=TOKENS):
    panels = [
        (f"layer {layer}, head {head}", tokens, WEIGHTS) for layer in layers for head in heads
    ]
    return draw_maps(panels, columns, "a sentence", False)


TWO_BY_TWO = [[0.5, 0.5], [0.25, 0.75]]


def test_draw_maps_of_means_has_one_panel_per_model_on_one_scale():
    means = [
        ("bert, C = 0.941", ["[CLS]", "food"], TWO_BY_TWO),
        ("convbert, C = 0.608", ["<s>", "foo", "-d"], [[0.9, 0.1, 0.0]] * 3),
    ]
    fig = draw_maps(means, 2, "a sentence", True)
    *axes, bar = fig.axes
    assert [p.get_title() for p in axes] == ["bert, C = 0.941", "convbert, C = 0.608"]
    assert [p.images[0].get_clim() for p in axes] == [(0.0, 0.9)] * 2
    ticks = [[t.get_text() for t in p.get_xticklabels()] for p in axes]
    assert ticks == [tokens for _, tokens, _ in means]
    left, right, colors = (ax.get_position() for ax in (*axes, bar))
    assert 0 < left.x0 < left.x1 < right.x0 < right.x1 < colors.x0 < colors.x1 < 1
