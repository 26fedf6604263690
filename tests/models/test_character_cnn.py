"""Word vectors from characters."""

from __future__ import annotations

import torch

from toolkit.models.conv_san import CharacterCnn


def build_cnn() -> CharacterCnn:
    torch.manual_seed(0)
    return CharacterCnn(9, 6, 5, 3).double()


def test_word_vector_does_not_depend_on_other_words():
    model, words = build_cnn(), torch.randint(9, (4, 8))
    torch.testing.assert_close(model(words)[2:3], model(words[2:3]))


def test_padding_characters_take_part():
    model, words = build_cnn(), torch.tensor([[1, 2, 0, 0, 0, 0, 0, 0, 0]])
    assert not torch.equal(model(words), model(words[:, :3]))


def test_word_vector_depends_on_the_order_of_characters():
    model, words = build_cnn(), torch.tensor([[1, 2, 3, 4, 0, 0]])
    assert not torch.equal(model(words), model(words[:, [1, 0, 2, 3, 4, 5]]))
