"""A plugin's position term in one file: trained in encoders and decoders, read back, refused."""

from __future__ import annotations

import json

import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.common.plugins import load_folder
from toolkit.common.registry import ARCHITECTURES, POSITIONS
from toolkit.config.load import compose
from toolkit.training.run import run

TERM = '''
from dataclasses import dataclass

import torch
from torch import nn

from toolkit import register_arch, register_position
from toolkit.config.declared import PositiveFloat
from toolkit.models.encoder import Encoder, EncoderConfig
from toolkit.nn.attention import (
    Attention, Content, LinearProjections, Position, PositionEmbedding, PositionOptions, ScoreTerm,
    SoftmaxMap,
)


@dataclass(frozen=True, kw_only=True)
class GaussConfig(PositionOptions):
    gauss_width: PositiveFloat = 4.0
    """Distance at which scores begin to fall, in tokens (gauss)."""


@register_position("gauss", GaussConfig())
class Gauss(Position):
    """A learned height per head, falling with the distance."""

    excludes = ("alibi",)
    reason = "both fall with the distance"

    def terms(self, shape):
        return [GaussTerm(shape.heads, self.options.gauss_width)]


class GaussTerm(ScoreTerm):
    def __init__(self, heads, width):
        super().__init__()
        self.width, self.heights = width, nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, p):
        distances = p.sequence.offsets.differences[:, None] / self.width
        return (self.heights * torch.exp(-distances.square())).to(p.q.dtype)


class Wrong(ScoreTerm):
    def forward(self, p):
        return torch.zeros(p.q.shape[1], 5)


class WrongVectors(PositionEmbedding):
    def vectors(self, x, ids, start=0):
        return torch.zeros(1, x.shape[1], 1)


@register_position("wrong", PositionOptions())
class WrongPosition(Position):
    def terms(self, shape):
        return [Wrong()]


class WrongValues(nn.Module):
    def forward(self, weights, offsets):
        return weights


@register_position("wrong_values", PositionOptions())
class WrongValuePosition(Position):
    def values(self, shape):
        return WrongValues()


@register_arch("wrong_bert", EncoderConfig(layers=1, width=16, heads=2))
def wrong_bert(c, sizes):
    def attention():
        scores = SoftmaxMap(Content(c.head_width), [Wrong()], c.attention_dropout)
        return Attention(c.width, LinearProjections(c.width, c.heads), scores)

    return Encoder(c, sizes, attention, takes_positions=True)


@register_position("wrong_vectors", PositionOptions())
class WrongTable(Position):
    def embedding(self, shape):
        return WrongVectors()
'''
CHOSEN = {"arch.positions": ["gauss", "rope"], "arch.gauss_width": 2.5, "arch.width": 16}
ENCODER = {"arch": "bert_tiny", "task": "mlm", "arch.layers": 1}
DECODER = {"arch": "transformer_lm_tiny", "task": "language_modeling", "arch.layers": 1}
PAIR = {"arch": "transformer_tiny", "arch.encoder_layers": 1, "arch.decoder_layers": 1}
TASKS = {"encoder": ENCODER, "decoder": DECODER, "both": {"task": "translation", **PAIR}}


@pytest.fixture(autouse=True)
def plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(POSITIONS, "_entries", {**POSITIONS._entries})
    monkeypatch.delitem(ARCHITECTURES._entries, "wrong_bert", raising=False)
    (tmp_path / "gaussian").mkdir()
    (tmp_path / "gaussian" / "term.py").write_text(TERM)
    return load_folder(str(tmp_path / "gaussian"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_term_of_a_plugin_is_trained_saved_and_read_back(name, data, parallel, tmp_path):
    options = {
        **{"data.dirs": [str(parallel if name == "both" else data)], "data.num_workers": 0},
        **{"training.max_update": 2, "data.batch_size": 8, "training.device": "cpu"},
        "checkpoint.save_dir": str(tmp_path / "run"),
    }
    run(compose({**TASKS[name], **CHOSEN, "arch.heads": 2, **options}))
    folder = tmp_path / "run" / "checkpoint_last"
    saved = json.loads((folder / "config.json").read_text())
    assert saved["run"]["arch"]["gauss_width"] == 2.5
    assert [plugin["name"] for plugin in saved["plugins"]] == ["gaussian"]
    encoder = load_checkpoint(folder).encoder
    terms = [part for part in encoder.modules() if type(part).__name__ == "GaussTerm"]
    assert terms and all(term.width == 2.5 for term in terms)
    assert all((term.heights != 1).any() for term in terms)  # it learned


def test_decoding_with_a_cache_has_the_states_of_all_tokens_at_once():
    model = build_model("transformer_lm_tiny", vocabulary_size=9, positions=["gauss"]).eval()
    tokens, cache = torch.randint(9, (2, 5)), model.cache(2)
    steps = [model.decode(tokens[:, i : i + 1], cache=cache) for i in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), model.decode(tokens))


def test_options_of_a_term_that_is_not_chosen_are_not_saved():
    assert not hasattr(compose(ENCODER).arch.config, "gauss_width")


@pytest.mark.parametrize("arch", [ENCODER, DECODER])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arch.positions": ["gauss", "alibi"]}, "both alibi and gauss: both fall with the dist"),
        ({"arch.gauss_width": 3.0}, "gauss_width requires gauss in arch.positions, now"),
        ({"arch.positions": ["gaus"]}, "unknown position term 'gaus'. Did you mean 'gauss'?"),
        ({"arch.positions": ["gauss"], "arch.gauss_width": 0.0}, "gauss_width must be above 0"),
    ],
)
def test_wrong_choices_are_rejected(arch, options, message):
    with pytest.raises(ToolkitError) as error:
        compose({**arch, **options})
    assert message in str(error.value)


@pytest.mark.parametrize("arch", ["bert_tiny", "transformer_lm_tiny", "transformer_tiny"])
@pytest.mark.parametrize(
    ("positions", "shape", "got"),
    [
        ("wrong", r"2 or 1 sentences, \d or 1 heads, 3 queries, 3 keys", r"\(\d, 5\)"),
        ("wrong_vectors", r"2 or 1 sentences, 3 tokens, \d+ columns", r"\(1, 3, 1\)"),
        ("wrong_values", r"2 sentences, \d heads, 3 queries, \d+ columns", r"\(2, \d, 3, 3\)"),
    ],
)
def test_a_wrong_shape_is_told_with_the_required_one(arch, positions, shape, got):
    expected = rf"of position term '{positions}' must return a tensor of the shape \({shape}\)"
    with pytest.raises(ToolkitError, match=rf"^Wrong\w* {expected} .* but returned {got}\."):
        build_model(arch, vocabulary_size=9, positions=[positions])


def test_a_wrong_shape_in_an_architecture_of_a_plugin_is_told_too():
    with pytest.raises(ToolkitError, match=r"^Wrong must .*3 keys\) .* but returned \(2, 5\)\."):
        build_model("wrong_bert", vocabulary_size=9)
