from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer
from toolkit.models.transformer_lm import TransformerLMConfig
from toolkit.optim.update import Precision
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.language_modeling import BlockExamples, LanguageModeling, LanguageModelingConfig
from toolkit.training.evaluation import batch_statistics, compute_metrics


@pytest.fixture
def make_examples(data):
    def make(split="valid", row_multiple=1, **options):
        options = {"tokens_per_sample": 20, **options}
        source = SplitSource(DataFolder.open(data), split, row_multiple=row_multiple)
        return BlockExamples(LanguageModelingConfig(**options), source)

    return make


def test_targets_are_the_tokens_of_the_text_alone(make_examples, data):
    examples, column = make_examples(), DataFolder.open(data).split("valid").column("tokens")
    batch = examples.collate(np.arange(len(examples.lengths)), None)
    assert batch.weights == {"lm": float(column.elements + column.items)}
    assert batch.tokens == len(batch.targets) == len(batch.selected) == examples.lengths.sum()
    assert batch.inputs.tokens.shape[0] == batch.sentences == len(examples.lengths)


def test_word_count_includes_the_ends_of_items(make_examples, data):
    batch = make_examples(tokens_per_sample=500).collate(np.zeros(1, np.int64), None)
    folder = DataFolder.open(data)
    column, words = folder.split("valid").column("tokens"), folder.vocabulary
    [part] = column.parts
    text = part.take(np.arange(part.elements)[None], np.zeros(1, int), np.array([part.elements]))
    assert batch.word_count == sum("▁" in words.symbols[i] for i in text[0]) + column.items


def test_word_count_includes_unmarked_first_words(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    level = tokenizers.pre_tokenizers.ByteLevel
    bytewise = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    bytewise.pre_tokenizer = level(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    lines = ["the cat sat on the mat", "a dog runs far"] * 4
    learning = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=level.alphabet()
    )
    bytewise.train_from_iterator(lines, learning)
    roles = {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 4}
    (tmp_path / "tokenizer").mkdir()
    HuggingFaceTokenizer(bytewise.to_str(), roles).save(tmp_path / "tokenizer")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    text, tokenizer, position = (str(tmp_path / name) for name in ("text", "tokenizer", "bin"))
    preprocess(
        preprocess_config(trainpref=text, tokenizer_from=tokenizer, destdir=position, workers=1)
    )
    config = LanguageModelingConfig(sample_mode="items", tokens_per_sample=64)
    examples = BlockExamples(config, SplitSource(DataFolder.open(position), "train"))
    batch = examples.collate(np.arange(len(examples.lengths)), None)
    assert batch.word_count == sum(len(line.split()) + 1 for line in lines)


def test_idle_rank_has_a_batch_of_weight_zero(make_examples):
    batch = make_examples().collate(np.zeros(0, np.int64), None)
    assert (
        batch.weights == {"lm": 0.0}
        and (batch.sentences, batch.tokens, batch.word_count) == (0,) * 3
    )
    assert (batch.targets == IGNORED).all()


def test_row_multiples_pad_the_selected_positions(make_examples):
    batch = make_examples(row_multiple=64).collate(np.arange(1), None)
    assert len(batch.selected) == 64 and (batch.targets != IGNORED).sum() == 20
    assert torch.equal(batch.selected[:20], torch.arange(20)) and not batch.selected[20:].any()


CHANGES = ({}, {"sample_mode": "items"}, {"eos_after": "documents"}, {"tokens_per_sample": 21})


def test_examples_leave_the_vocabulary_unchanged(make_examples, data):
    folder = DataFolder.open(data)
    BlockExamples(LanguageModelingConfig(tokens_per_sample=20), SplitSource(folder, "valid"))
    assert not folder.vocabulary.starts_word[folder.vocabulary.sep]


def test_options_change_the_fingerprint(make_examples):
    prints = {make_examples(**o).fingerprint for o in CHANGES}
    assert len(prints) == len(CHANGES)


@pytest.fixture
def examples(data):
    config = LanguageModelingConfig(tokens_per_sample=12)
    return LanguageModeling.examples(config, SplitSource(DataFolder.open(data), "valid"))


@pytest.fixture
def learner(data):
    torch.manual_seed(1)
    size = len(DataFolder.open(data).vocabulary)
    shape = {"layers": 1, "width": 8, "heads": 2, "feed_forward_width": 8, "dropout": 0.0}
    model = build_model(
        "transformer_lm_tiny", vocabulary_size=size, task="language_modeling", **shape
    )
    return model.eval()


def test_language_model_predicts_each_token_from_the_previous_ones(learner, examples):
    batch = examples.collate(np.arange(3), None)
    logits, targets = learner(batch)["lm"]
    assert logits.shape == (len(targets), learner.encoder.token_embedding.num_embeddings)
    tokens = batch.inputs.tokens.clone()
    tokens[:, 5:] = 7
    changed = learner(batch._replace(inputs=batch.inputs._replace(tokens=tokens)))["lm"].logits
    early = batch.selected % tokens.shape[1] < 5
    torch.testing.assert_close(changed[early], logits[early])


def test_metrics_include_token_and_word_perplexity(learner, examples):
    criterion = CrossEntropy(CrossEntropyConfig(label_smoothing=0.3))
    batches = [examples.collate(np.array([i]), None) for i in range(len(examples.lengths))]
    sums = {}
    for batch in batches:
        with torch.no_grad():
            found = batch_statistics(
                learner, criterion, batch, Precision("fp32", torch.device("cpu"))
            )
        for name, value in found.items():
            sums[name] = np.asarray(sums.get(name, 0.0) + float(value))
    metrics = compute_metrics(sums, learner.task.coefficients, with_perplexity=True)
    with torch.no_grad():
        log_p = [learner(batch)["lm"] for batch in batches]
    total = sum(torch.nn.functional.cross_entropy(*p, reduction="sum").item() for p in log_p)
    tokens, words = (
        sum(getattr(batch, name) for batch in batches) for name in ("tokens", "word_count")
    )
    assert metrics["ppl"] == pytest.approx(math.exp(total / tokens), rel=1e-5)
    assert metrics["word_ppl"] == pytest.approx(math.exp(total / words), rel=1e-5)
    assert (
        metrics["nll"] == pytest.approx(total / tokens, rel=1e-5)
        and metrics["loss"] != metrics["nll"]
    )


def test_language_modeling_requires_a_decoder_only_model():
    for arch in ("transformer_tiny", "bert_tiny"):
        with pytest.raises(ToolkitError, match=r"requires a causal language model, but"):
            build_model(arch, vocabulary_size=17, task="language_modeling")


def test_tokens_per_sample_is_as_given_the_default_or_the_maximum():
    def resolved_length(requested=0, **arch):
        config = LanguageModelingConfig(tokens_per_sample=requested)
        return LanguageModeling.resolve_for(config, TransformerLMConfig(**arch)).tokens_per_sample

    with_table = {"positions": "learned", "max_positions": 50}
    assert (
        resolved_length(),
        resolved_length(2000),
        resolved_length(**with_table),
        resolved_length(20, **with_table),
    ) == (512, 2000, 50, 20)
    with pytest.raises(ToolkitError, match=r"maximum length, 50, but is 60\. Lower it"):
        resolved_length(60, **with_table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sample_mode": "pairs"},
            r"task.sample_mode must be one of blocks, documents",
        ),
        ({"tokens_per_sample": 1}, r"task.tokens_per_sample must be 0 or at least 2"),
    ],
)
def test_language_modeling_config_rejects_options_out_of_range(options, message):
    with pytest.raises(ToolkitError, match=message):
        LanguageModelingConfig(**options)
