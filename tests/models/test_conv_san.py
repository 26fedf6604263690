"""The tagger of Dufter et al. 2020: its sizes, its counts, its choices."""

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


def built(name: str = "conv_san", **changes):
    return conv_san(dataclasses.replace(ARCHITECTURES[name].config, **changes), SIZES)


def built_row(row: str, name: str = "conv_san", **changes):
    """A row of the paper's Table 2, from its recipe."""
    command_line = ["data", "--task", "pos_tagging", "--arch", name, "--config", str(ROWS[row])]
    config = load(command_line, TRAIN).config.arch.config
    return conv_san(dataclasses.replace(config, **changes), SIZES)


def small(**changes):
    torch.manual_seed(0)
    return built(**SMALL, **changes).eval()


def inputs(places: int = 5) -> Inputs:
    tokens = torch.randint(50, (3, places))
    return Inputs(tokens, char_ids=torch.randint(20, (4, 7)), word_index=tokens % 4)


def count(row: str) -> int:
    return sum(p.numel() for p in built_row(row).parameters())


def test_extensions_add_the_parameters_of_the_papers_table_1c():
    plain, added = count("none"), count("add")
    assert added - plain == 18_000
    assert count("p") - plain == 14_400
    assert count("r") - plain == 480
    assert count("pr") - plain == 14_880
    assert count("temp") - added == 48
    assert count("conv1d") - added == 173_760
    assert count("conv2d") - added == 160


@pytest.mark.parametrize(("row", "width"), [("conv2d", 364), ("concat", 428), ("none", 364)])
def test_states_are_the_embeddings_and_the_last_layers_vectors(row, width):
    assert built_row(row).width == 2 * width
    assert built_row(row, "conv_san_ud").width == 2 * (width - 172)


@pytest.mark.parametrize(("name", "width"), [("conv_san", 300), ("conv_san_ud", 128)])
@pytest.mark.parametrize("row", ROWS)
def test_every_row_of_the_papers_tables_runs_at_both_sizes(row, name, width):
    model = built_row(row, name, fixed_length=5, layers=1)
    assert model.token_embedding.embedding_dim == width
    assert model(inputs()).states.shape == (3, 5, model.width)


def test_the_row_with_2d_convolution_is_the_default():
    assert len(ROWS) == 9
    assert count("conv2d") == sum(p.numel() for p in built().parameters())


@pytest.mark.parametrize("convolution", ["none", "1d", "2d"])
def test_chosen_places_have_the_states_that_they_have_among_all(convolution):
    model, given = small(convolution=convolution), inputs()
    chosen = torch.tensor([0, 6, 14])
    want = model(given).states.flatten(0, 1)[chosen]
    torch.testing.assert_close(model(given, chosen).states[0], want)


def test_a_sentence_does_not_see_its_batch():
    model, given = small(), inputs()
    alone = given._replace(tokens=given.tokens[1:2], word_index=given.word_index[1:2])
    torch.testing.assert_close(model(alone).states, model(given).states[1:2])


def test_the_order_of_the_spellings_does_not_matter():
    model, given = small(), inputs()
    order = torch.tensor([2, 0, 3, 1])
    turned = given._replace(
        char_ids=given.char_ids[order], word_index=order.argsort()[given.word_index]
    )
    torch.testing.assert_close(model(turned).states, model(given).states)


def test_padding_is_attended_to():
    model, given = small(), inputs()
    padding = torch.tensor([[False] * 4 + [True]] * 3)
    other = given._replace(tokens=given.tokens.clone(), padding=padding)
    other.tokens[:, 4] = (other.tokens[:, 4] + 1) % 50
    assert not torch.equal(model(other).states[:, 0], model(given).states[:, 0])


def test_sentences_of_another_length_are_refused():
    with pytest.raises(ToolkitError, match=r"arch.fixed_length = 5 tokens, but have 4"):
        small()(inputs(4))


def test_data_that_spells_no_words_is_refused_unless_no_characters_are_wanted():
    c = ARCHITECTURES["conv_san"].config
    with pytest.raises(ToolkitError, match=r"arch.character_width must be 0 .* but is 64"):
        conv_san(c, Sizes(tokens=9))
    without = conv_san(dataclasses.replace(c, character_width=0, word_width=8), Sizes(tokens=9))
    assert without(Inputs(torch.zeros(1, 60, dtype=torch.long))).states.shape[-1] == 16


@pytest.mark.parametrize("given", ["frozen", "tuned"])
def test_word_vectors_are_taken_and_learn_only_where_tuned(given):
    model, vectors = small(word_vectors=given), np.ones((50, 6), np.float32)
    model.load_word_vectors(vectors)
    assert model.token_embedding.weight.requires_grad == (given == "tuned")
    assert torch.equal(model.token_embedding.weight, torch.ones(50, 6))


def test_learned_words_leave_the_folders_vectors_alone():
    model = small()
    model.load_word_vectors(np.ones((50, 6), np.float32))
    assert not torch.equal(model.token_embedding.weight, torch.ones(50, 6))


def test_word_vectors_that_are_missing_or_of_another_width_are_refused():
    model = small(word_vectors="tuned")
    with pytest.raises(ToolkitError, match=r"arch.word_vectors must be learned .* but is tuned"):
        model.load_word_vectors(None)
    with pytest.raises(ToolkitError, match=r"arch.word_width must be .* 3, but is 6"):
        model.load_word_vectors(np.ones((50, 3), np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "sum"}, r"arch.positions must be one of none, add, concat, but is 'sum'"),
        ({"convolution": "3d"}, r"arch.convolution must be one of none, 1d, 2d, but is '3d'"),
        ({"word_vectors": "given"}, r"arch.word_vectors must be one of learned, tuned, frozen"),
        ({"character_kernel": 4}, r"arch.character_kernel must be odd, but is 4"),
        ({"character_width": -1}, r"arch.character_width must be at least 0, but is -1"),
        ({"relative_spectral": True}, r"arch.relative_spectral requires arch.relative_table"),
        ({"heads": 5}, r"arch.heads must divide the width of a word, 364"),
        ({"fixed_length": 0}, r"arch.fixed_length must be at least 1, but is 0"),
    ],
)
def test_a_wrong_choice_is_refused(changes, message):
    with pytest.raises(ToolkitError, match=message):
        ConvSanConfig(**changes)


def test_what_is_added_to_a_layer_s_result_is_what_dropout_left_of_its_input():
    torch.manual_seed(0)
    layer = ConvSanLayer(
        build_attention(
            ConvSanConfig(word_width=8, character_width=0, fixed_length=4), first=False
        ),
        0.5,
    ).train()
    torch.nn.init.zeros_(layer.attention.project.qkv.weight)  # no values, nothing to add
    found = layer(torch.ones(1, 4, 8), SequenceContext(Offsets(None, 4, torch.device("cpu"))))
    assert found.unique().tolist() == [0.0, 2.0]
