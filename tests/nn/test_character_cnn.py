"""Words from their characters."""

from __future__ import annotations

import torch

from toolkit.nn.character_cnn import CharacterCnn


def spelling() -> CharacterCnn:
    torch.manual_seed(0)
    return CharacterCnn(9, 6, 5, 3).double()


def test_a_word_has_one_vector_whatever_is_spelled_beside_it():
    model, words = spelling(), torch.randint(9, (4, 8))
    torch.testing.assert_close(model(words)[2:3], model(words[2:3]))


def test_characters_that_fill_up_a_word_take_part():
    model, words = spelling(), torch.tensor([[1, 2, 0, 0, 0, 0, 0, 0, 0]])
    assert not torch.equal(model(words), model(words[:, :3]))


def test_the_order_of_characters_tells():
    model, words = spelling(), torch.tensor([[1, 2, 3, 4, 0, 0]])
    assert not torch.equal(model(words), model(words[:, [1, 0, 2, 3, 4, 5]]))
