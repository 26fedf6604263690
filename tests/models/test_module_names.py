from __future__ import annotations

import pytest

from tests.models.test_interface import Lookup
from toolkit import ToolkitError, build_model
from toolkit.models.interface import find_modules


@pytest.fixture(scope="module")
def encoder():
    return build_model("bert_tiny", vocabulary_size=9, layers=4)


def test_modules_are_found_by_name_and_range(encoder):
    found = find_modules(encoder, ["embeddings", "layers.1-2", "layers.0-3.attention"])
    layers = list(encoder.layers)
    assert found == [encoder.embeddings, *layers[1:3], *(layer.attention for layer in layers)]


def test_encoder_names_all_of_it_or_its_module_of_that_name(encoder):
    assert find_modules(encoder, ["encoder"]) == [encoder]
    translator = build_model("transformer_tiny", sizes={"tokens": 9, "targets": 9})
    assert find_modules(translator, ["encoder"]) == [translator.encoder]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            "layers.2-4",
            "cannot freeze 'layers.2-4': the encoder has no module 'layers.4'. Choose from "
            "embeddings, layers.0-3, parts of them such as embeddings.words, or encoder for all of "
            "it.",
        ),
        (
            "layers.3-0",
            "the range in 'layers.3-0' must begin with the lower number, but begins with 3. Write "
            "layers.0-3.",
        ),
    ],
)
def test_unknown_names_and_reversed_ranges_are_rejected(encoder, pattern, message):
    with pytest.raises(ToolkitError) as error:
        find_modules(encoder, [pattern])
    assert str(error.value).startswith(message)


def test_message_lists_the_modules_of_every_kind_of_encoder():
    translator = build_model("transformer_tiny", sizes={"tokens": 9, "targets": 9})
    listed = "embedding, separate_target_embedding, encoder.layers.0-3, decoder.layers.0-3, parts"
    with pytest.raises(ToolkitError, match=listed):
        find_modules(translator, ["layers"])
    with pytest.raises(ToolkitError, match="Choose from table, or encoder for all of it"):
        find_modules(Lookup(), ["layers"])
