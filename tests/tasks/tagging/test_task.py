import numpy as np
import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from toolkit import build_model, load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.criteria import Classes
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.preprocess import preprocess
from toolkit.models.interface import Encoded, EncoderModel, Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.tagging.examples import PosTaggingConfig, ResolvedTaggingConfig, TaggingExamples
from toolkit.tasks.tagging.task import PosTagging, mean_per_word
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
    logits = torch.randn(len(batch.word_ids), 5)
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


def test_padding_rows_do_not_count(batch):
    task = PosTagging(PosTaggingConfig(), Embedded(), EncoderFactory(None, SIZES))
    batch = batch._replace(scored=torch.zeros_like(batch.scored))
    metrics = task.metrics({"tag": Classes(torch.randn(9, 5), batch.targets)}, batch)
    assert metrics["accuracy"].weight == 0


def options(folder, tmp_path, **changes):
    return {
        "arch": "conv_san_ud", **{f"arch.{name}": value for name, value in SMALL.items()},
        "task": "pos_tagging", "data.dirs": [str(folder.path)], "num_workers": 0,
        "precision": "fp32", "device": "cpu", "save_dir": str(tmp_path / "run"), "lr": 0.01,
        "best_metric": "accuracy", "log_interval": 100, "max_update": 30, **changes,
    }  # fmt: skip


def test_tagger_memorizes_a_small_treebank_and_tags_with_it(tagged, tmp_path):
    """With two heads of width 8, one seed in eight leaves one of the ambiguous words wrong."""
    train = "the/DET dog/NOUN barks/VERB ./PUNCT|the/DET bark/NOUN ./PUNCT|I/PRON bark/VERB ./PUNCT"
    folder = tagged(train="|".join([train] * 10), valid=train)
    recipe = {"optimizer": "rmsprop", "lr_scheduler": "fixed", "batch_size": 3, "max_update": 50}
    widths = {"arch.word_width": 16, "arch.character_width": 16, "arch.heads": 8}
    result = run(compose(options(folder, tmp_path, **recipe, **widths)))
    assert result.valid["valid"]["accuracy"] == 1.0
    assert "oov_accuracy" not in result.valid["valid"]  # there are none
    learner = load_checkpoint(tmp_path / "run")
    tags = learner.tag([["the", "bark", "."], [], ["I", "bark", "."], ["I", "bark"] * 9])
    assert tags[:3] == [["DET", "NOUN", "PUNCT"], [], ["PRON", "VERB", "PUNCT"]]
    assert len(tags[3]) == 18  # read in two chunks
    assert learner.tag(["the bark ."]) == tags[:1]
    with pytest.raises(ToolkitError, match=r"learner.tag takes a list of items"):
        learner.tag("the bark .")


def test_word_vectors_reach_the_encoder_and_its_checkpoint(tagged, tmp_path):
    (tmp_path / "a.vec").write_text("1 8\ndog " + " ".join("12345678") + "\n")
    folder = tagged(word_vectors=str(tmp_path / "a.vec"))
    run(compose(options(folder, tmp_path, **{"arch.word_vectors": "frozen", "max_update": 2})))
    table = load_checkpoint(tmp_path / "run").encoder.token_embedding.weight
    row = folder.tokenizer.tables.word_index["dog"] + 2
    assert table[row].tolist() == [float(n) for n in range(1, 9)]
    np.testing.assert_array_equal(table.detach().numpy(), folder.word_vectors)


def test_run_rejects_word_vectors_that_the_folder_does_not_have(tagged, tmp_path):
    with pytest.raises(ToolkitError, match=r"Run toolkit-preprocess with --word-vectors FILE.vec"):
        run(compose(options(tagged(), tmp_path, **{"arch.word_vectors": "tuned"})))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_pretrained_encoder_is_finetuned_as_a_tagger(tagged, tmp_path, pooling):
    text = tmp_path / "text.txt"
    text.write_text("the dog barks at the cat .\nI bark loudly .\n" * 30)
    destdir = str(tmp_path / "text")
    preprocess(preprocess_config(trainpref=str(text), destdir=destdir, vocab_size=25, workers=1))
    recipe = {"arch": "bert_tiny", "num_workers": 0, "device": "cpu", "precision": "fp32"}
    learned = {"task": "mlm", "data.dirs": [destdir], "valid_subset": "", "max_update": 1}
    run(compose({**recipe, **learned, "save_dir": str(tmp_path / "pre")}))
    checkpoint = str(tmp_path / "pre" / "checkpoint_last")
    folder = tagged(tokenizer_from=checkpoint)
    options = {"task": "pos_tagging", "task.pooling": pooling, "data.dirs": [str(folder.path)]}
    options |= {"finetune_from": checkpoint, "max_update": 2, "lr": 1e-9}
    run(compose({**recipe, **options, "save_dir": str(tmp_path / "run")}))
    before, after = load_checkpoint(checkpoint), load_checkpoint(tmp_path / "run")
    torch.testing.assert_close(after.encoder.state_dict(), before.encoder.state_dict())
    assert [len(tags) for tags in after.tag([["dog", "barks"], ["I"]])] == [2, 1]


def test_tag_requires_a_tagger():
    learner = build_model("bert_tiny", vocabulary_size=9, task="mlm")
    with pytest.raises(ToolkitError, match=r"--task pos_tagging; this one was trained with mlm"):
        learner.tag([["a"]])


def test_patience_stops_training_by_the_accuracy(tagged, tmp_path):
    changes = {"patience": 3, "max_epoch": 100, "max_update": 0, "lr": 1e-12}
    result = run(compose(options(tagged(), tmp_path, **changes)))
    assert result.epochs <= 5


@pytest.mark.parametrize("arch", ["bert_tiny", "taco_tiny", "composite_bert_tiny", "conv_san_ud"])
def test_tags_do_not_depend_on_padding_and_other_sentences(tagged, arch):
    from toolkit.common.registry import ARCHITECTURES, TASKS
    from toolkit.config.sections import ComponentConfig
    from toolkit.tasks.tagging.examples import resolve_tagging

    torch.manual_seed(0)
    component = ComponentConfig(arch, ARCHITECTURES[arch].config)
    folder = tagged()
    learner = build_learner(
        component,
        ComponentConfig("pos_tagging", TASKS["pos_tagging"].config),
        Sizes(**folder.tokenizer.sizes),
    ).eval()
    config = resolve_tagging(PosTaggingConfig(), component.config)
    examples = TaggingExamples(config, TaggedSplit(folder, "valid"), row_multiple=1)
    together = learner(examples.collate(np.arange(3), None))["tag"].logits
    alone = [learner(examples.collate(np.array([i]), None))["tag"].logits for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-4)
