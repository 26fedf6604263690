import math

import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.tasks.learner import Learner

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "sat"]


@pytest.fixture
def tokenizer():
    return WordLevelTokenizer.from_symbols(WORDS)


@pytest.fixture
def learner(tokenizer):
    torch.manual_seed(0)
    return build_model("bert_tiny", tokenizer=tokenizer, task="mlm", layers=2, width=16).eval()


def test_saved_learner_is_loaded_with_equal_weights_tokenizer_and_metadata(learner, tmp_path):
    learner.save(tmp_path / "model", metadata={"accuracy": 0.5, "notes": ["first"]})
    loaded = load_checkpoint(tmp_path / "model")
    expected = learner.state_dict()
    assert all(torch.equal(tensor, expected[n]) for n, tensor in loaded.state_dict().items())
    assert loaded.tokenizer.fingerprint == learner.tokenizer.fingerprint
    assert loaded.metadata == {"accuracy": 0.5, "notes": ["first"]}
    assert loaded.origin.arch == learner.origin.arch and loaded.origin.sizes["tokens"] == 8
    assert loaded.fill_mask("the [MASK]", top=1) == learner.fill_mask("the [MASK]", top=1)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_rejected(learner, tmp_path, value):
    with torch.no_grad():
        learner.encoder.layers[1].feed_forward.wide.weight[3, 4] = value
    learner.save(tmp_path / "model")
    with pytest.raises(ToolkitError) as raised:
        load_checkpoint(tmp_path / "model")
    file, name = tmp_path / "model/model.safetensors", "encoder.layers.1.feed_forward.wide.weight"
    assert str(raised.value).startswith(f"the weights in {file} are not finite (NaN or infinity in")
    assert name in str(raised.value) and "use an earlier checkpoint" in str(raised.value)


def test_saved_learner_can_be_saved_again(learner, tmp_path):
    learner.save(tmp_path / "one", metadata={"language": "English"})
    loaded = load_checkpoint(tmp_path / "one")
    loaded.save(tmp_path / "two")
    again = load_checkpoint(tmp_path / "two")
    assert again.origin == loaded.origin and again.metadata == {"language": "English"}


def test_save_rejects_an_existing_folder_and_keeps_it(learner, tmp_path):
    learner.save(tmp_path / "model")
    with pytest.raises(ToolkitError, match=r"path must name a new folder, but .*model exists"):
        learner.save(tmp_path / "model")
    load_checkpoint(tmp_path / "model")


@pytest.mark.parametrize("value", [object(), math.nan])
def test_save_rejects_metadata_that_json_cannot_hold(learner, tmp_path, value):
    with pytest.raises(ToolkitError, match=r"metadata must be a mapping of text, finite numbers"):
        learner.save(tmp_path / "model", metadata={"it": value})
    assert not (tmp_path / "model").exists()


def test_save_requires_a_tokenizer_and_a_named_architecture(learner, tmp_path):
    with pytest.raises(ToolkitError, match=r"learner has no tokenizer.*give build_model a tok"):
        build_model("bert_tiny", vocabulary_size=9, task="mlm").save(tmp_path / "model")
    with pytest.raises(ToolkitError, match=r"This requires a learner made by build_model"):
        Learner(learner.encoder, learner.task).save(tmp_path / "model")


def test_tokenizer_must_fit_the_embedding(learner):
    larger = WordLevelTokenizer.from_symbols([*WORDS, "on", "a", "mat"])
    with pytest.raises(ToolkitError, match=r"at most 8 tokens, as many as .* but has 11"):
        learner.tokenizer = larger
