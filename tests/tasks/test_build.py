import jaxtyping
import pytest

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.config.sections import ComponentConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes
from toolkit.tasks.task import EncoderFactory


def test_unknown_override_suggests_the_nearest_known_one():
    with pytest.raises(ToolkitError, match=r"has no option 'layrs'. Did you mean 'layers'\?"):
        build_model("composite_bert_tiny", vocabulary_size=11, layrs=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"tokenizer": "bert-base-uncased"},
            "tokenizer must be a Tokenizer, but is 'bert-base-unc",
        ),
        ({"labels": 2}, "labels must be a list of classes or Labels, but is 2."),
        ({}, "Task glue requires labeled data. .* in Python give build_model the labels."),
    ],
)
def test_wrong_tokenizers_and_labels_are_rejected(given, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for users
    tokenizer = Tokenizer.train(["a film"], kind="words")
    with pytest.raises(ToolkitError, match=message):
        build_model("bert_tiny", **{"tokenizer": tokenizer, "task": "glue", **given})


def test_scaled_encoder_has_a_fraction_of_the_widths_and_heads():
    arch = ComponentConfig("taco_tiny", ARCHITECTURES["taco_tiny"].config)
    half = EncoderFactory(arch, Sizes(tokens=11)).scale(0.5)
    assert half.token_embedding.embedding_dim == 54 and half.position_embedding.embedding_dim == 10
    assert len(half.layers) == 2 and half.offsets.embedding_dim == 64


def test_scaled_rejects_fractions_that_do_not_divide_the_heads():
    arch = ComponentConfig("convbert", ARCHITECTURES["convbert"].config)
    with pytest.raises(ToolkitError, match=r"'convbert' cannot be scaled by 0\.25: .* or 0\.3333"):
        EncoderFactory(arch, Sizes(tokens=11)).scale(0.25)
