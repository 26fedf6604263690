"""The tagger of Dufter et al. 2020: sizes, variants and rejected configs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import load
from toolkit.models.conv_san import ConvSanConfig, ConvSanLayer, build_attention, conv_san
from toolkit.models.interface import Inputs, Sizes
from toolkit.nn.attention import Offsets, SequenceContext

SIZES = Sizes(tokens=50, characters=20)
SMALL = {"layers": 2, "word_width": 6, "character_width": 2, "heads": 2, "fixed_length": 5}


FOLDER = Path(__file__).parents[2] / "examples" / "conv_san" / "rows"
ROWS = {file.stem: file for file in FOLDER.iterdir()}


def build(name: str = "conv_san", **changes):
    return conv_san(dataclasses.replace(ARCHITECTURES[name].config, **changes), SIZES)


def build_row(row: str, name: str = "conv_san", **changes):
    """A row of the paper's Table 2, from its recipe."""
    command_line = ["data", "--task", "pos_tagging", "--arch", name, "--config", str(ROWS[row])]
    config = load(command_line, TRAIN).config.arch.config
    return conv_san(dataclasses.replace(config, **changes), SIZES)


def small(**changes):
    torch.manual_seed(0)
    return build(**SMALL, **changes).eval()


def inputs(length: int = 5) -> Inputs:
    tokens = torch.randint(50, (3, length))
    return Inputs(tokens, char_ids=torch.randint(20, (4, 7)), word_index=tokens % 4)


def count(row: str) -> int:
    return sum(p.numel() for p in build_row(row).parameters())


@pytest.mark.slow
def test_extensions_add_the_parameters_of_the_papers_table_1c():
    plain, added = count("none"), count("add")
    assert added - plain == 18_000
    assert count("p") - plain == 14_400
    assert count("r") - plain == 480
    assert count("pr") - plain == 14_880
    assert count("temp") - added == 48
    assert count("conv1d") - added == 173_760
    assert count("conv2d") - added == 160


@pytest.mark.parametrize("row", ROWS)
def test_every_row_of_the_papers_tables_builds_and_runs(row):
    model = build_row(row, fixed_length=5, layers=1)
    assert len(ROWS) == 9 and model.token_embedding.embedding_dim == 300
    assert model(inputs()).states.shape == (3, 5, model.width)


@pytest.mark.parametrize("convolution", ["none", "1d", "2d"])
def test_selected_states_equal_those_of_all_tokens(convolution):
    model, x = small(convolution=convolution), inputs()
    selected = torch.tensor([0, 6, 14])
    expected = model(x).states.flatten(0, 1)[selected]
    torch.testing.assert_close(model(x, selected).states[0], expected)


def test_conv_san_states_do_not_depend_on_the_batch():
    model, x = small(), inputs()
    alone = x._replace(tokens=x.tokens[1:2], word_index=x.word_index[1:2])
    torch.testing.assert_close(model(alone).states, model(x).states[1:2])


def test_sentences_of_another_length_are_rejected():
    with pytest.raises(ToolkitError, match=r"arch.fixed_length = 5 tokens, but have 4"):
        small()(inputs(4))


def test_data_without_characters_requires_character_width_0():
    c = ARCHITECTURES["conv_san"].config
    with pytest.raises(ToolkitError, match=r"arch.character_width must be 0 .* but is 64"):
        conv_san(c, Sizes(tokens=9))
    model = conv_san(dataclasses.replace(c, character_width=0, word_width=8), Sizes(tokens=9))
    assert model(Inputs(torch.zeros(1, 60, dtype=torch.long))).states.shape[-1] == 16


@pytest.mark.parametrize("word_vectors", ["frozen", "tuned"])
def test_word_vectors_are_loaded_and_updated_only_if_tuned(word_vectors):
    model, vectors = small(word_vectors=word_vectors), np.ones((50, 6), np.float32)
    model.load_word_vectors(vectors)
    assert model.token_embedding.weight.requires_grad == (word_vectors == "tuned")
    assert torch.equal(model.token_embedding.weight, torch.ones(50, 6))


def test_word_vectors_that_are_missing_or_of_another_width_are_rejected():
    model = small(word_vectors="tuned")
    with pytest.raises(ToolkitError, match=r"arch.word_vectors must be learned .* but is tuned"):
        model.load_word_vectors(None)
    with pytest.raises(ToolkitError, match=r"arch.word_width must be .* 3, but is 6"):
        model.load_word_vectors(np.ones((50, 3), np.float32))


def test_conv_san_layer_adds_its_input_after_dropout():
    torch.manual_seed(0)
    layer = ConvSanLayer(
        build_attention(
            ConvSanConfig(word_width=8, character_width=0, fixed_length=4), first=False
        ),
        0.5,
    ).train()
    torch.nn.init.zeros_(layer.attention.project.qkv.weight)  # no values, nothing to add
    y = layer(torch.ones(1, 4, 8), SequenceContext(Offsets(None, 4, torch.device("cpu"))))
    assert y.unique().tolist() == [0.0, 2.0]
