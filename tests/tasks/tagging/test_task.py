import math

import numpy as np
import pytest
import torch

from toolkit import load_checkpoint
from toolkit.config.load import compose
from toolkit.criteria import Classes
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.models.interface import Encoded, EncoderModel, Sizes
from toolkit.tasks.tagging.examples import PosTaggingConfig, ResolvedTaggingConfig, TaggingExamples
from toolkit.tasks.tagging.predictions import PosTagging, mean_per_word
from toolkit.tasks.task import EncoderFactory
from toolkit.training.run import run

SIZES = Sizes(tokens=50, characters=30, tags=5)
SMALL = {"layers": 1, "word_width": 8, "character_width": 8, "heads": 2, "fixed_length": 9}


class Embedded(EncoderModel):
    """States are the tokens' vectors."""

    width = 6
    token_embedding = torch.nn.Embedding(60, 6)

    def forward(self, inputs, selected=None):
        return Encoded(self.token_embedding(inputs.tokens))


@pytest.fixture
def batch(tagged):
    config = ResolvedTaggingConfig(tokens_per_sample=9, fixed_length=9)
    return TaggingExamples(config, TaggedSplit(tagged(), "valid"), row_multiple=1).collate(
        np.arange(3), None
    )


def test_tags_are_predicted_from_the_state_of_their_word(batch):
    encoder = Embedded()
    task = PosTagging(PosTaggingConfig(), encoder, EncoderFactory(None, SIZES))
    logits, targets = task.predict(encoder, batch)["tag"]
    ids = batch.inputs.tokens[~batch.inputs.padding]
    torch.testing.assert_close(logits, task.head(encoder.token_embedding(ids)))
    assert torch.equal(targets, batch.targets)


def test_mean_per_word_covers_the_pieces_of_the_word_alone():
    states = torch.randn(5, 3)
    got = mean_per_word(states, torch.tensor([0, 1, 1, 1, 3]), 4)
    want = torch.stack([states[0], states[1:4].mean(0), torch.zeros(3), states[4]])
    torch.testing.assert_close(got, want)


def test_accuracies_equal_direct_counts(batch):
    task = PosTagging(PosTaggingConfig(), Embedded(), EncoderFactory(None, SIZES))
    logits = torch.randn(len(batch.ids), 5)
    metrics = task.metrics({"tag": Classes(logits, batch.targets)}, batch)
    right = [int(row.argmax()) == int(t) for row, t in zip(logits, batch.targets, strict=True)]
    groups = {
        "accuracy": [True] * 9,
        "oov_accuracy": batch.oov,
        "ambiguous_accuracy": batch.ambiguous,
    }
    for name, group in groups.items():
        total = sum(r for r, g in zip(right, group, strict=True) if g)
        assert (metrics[name].total, metrics[name].weight) == (total, sum(map(int, group))), name


def options(folder, tmp_path, **changes):
    return {
        "arch": "conv_san_ud", **{f"arch.{name}": value for name, value in SMALL.items()},
        "task": "pos_tagging", "data.dirs": [str(folder.path)], "num_workers": 0,
        "precision": "fp32", "device": "cpu", "save_dir": str(tmp_path / "run"), "lr": 0.01,
        "best_metric": "accuracy", "log_interval": 100, "max_update": 30, **changes,
    }  # fmt: skip


@pytest.mark.slow
def test_tagger_memorizes_a_small_treebank_and_tags_with_it(tagged, tmp_path):
    """With two heads of width 8, one seed in eight leaves one of the ambiguous words wrong."""
    train = "the/DET dog/NOUN barks/VERB ./PUNCT|the/DET bark/NOUN ./PUNCT|I/PRON bark/VERB ./PUNCT"
    folder = tagged(train="|".join([train] * 10), valid=train)
    recipe = {"optimizer": "rmsprop", "lr_scheduler": "fixed", "batch_size": 3, "max_update": 50}
    widths = {"arch.word_width": 16, "arch.character_width": 16, "arch.heads": 8}
    result = run(compose(options(folder, tmp_path, **recipe, **widths)))
    assert result.valid["valid"]["accuracy"] == 1.0
    assert math.isnan(result.valid["valid"]["oov_accuracy"])  # there are no such words
    learner = load_checkpoint(tmp_path / "run")
    items = [["the", "bark", "."], [], ["I", "bark", "."], ["I", "bark"] * 9]
    tags = [it.tags for it in learner.predict(items)]
    assert tags[:3] == [["DET", "NOUN", "PUNCT"], [], ["PRON", "VERB", "PUNCT"]]
    assert len(tags[3]) == 18  # read in two chunks
    assert [it.tags for it in learner.predict(["the bark ."])] == tags[:1]


def test_word_vectors_reach_the_encoder_and_its_checkpoint(tagged, tmp_path):
    (tmp_path / "a.vec").write_text("1 8\ndog " + " ".join("12345678") + "\n")
    folder = tagged(word_vectors=str(tmp_path / "a.vec"))
    run(compose(options(folder, tmp_path, **{"arch.word_vectors": "frozen", "max_update": 2})))
    table = load_checkpoint(tmp_path / "run").encoder.token_embedding.weight
    row = folder.tokenizer.tables.word_index["dog"] + 2
    assert table[row].tolist() == [float(n) for n in range(1, 9)]
    np.testing.assert_array_equal(table.detach().numpy(), folder.word_vectors)


def test_text_has_the_words_of_the_training_data(tagged, tmp_path):
    folder = tagged(train="10\u00a0000/NUM\u2009x dogs/NOUN")
    run(compose(options(folder, tmp_path, max_update=1)))
    learner = load_checkpoint(tmp_path / "run")
    [answer] = learner.predict(["10\u00a0000  dogs"])
    assert answer.words == folder.tokenizer.tables.words == ["10\u00a0000", "dogs"]
    assert learner.predict([{"words": ["10\u00a0000", "dogs "]}]) == [answer]
