from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.criteria import IGNORED
from toolkit.tasks.capabilities import resolve_length
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue import GlueConfig, GlueExamples


def make_examples(folder, split="train", max_tokens=20, training=False):
    c = GlueConfig(tokens_per_sample=max_tokens)
    return GlueExamples(c, SplitSource(folder, split, training=training))


def test_rows_are_read_as_pairs_with_their_labels(glue):
    folder = glue()
    batch = make_examples(folder, "valid").collate(np.arange(2), None)
    words, rows = folder.vocabulary, batch.inputs.tokens
    for row, texts in zip(rows.tolist(), [("cats run", "a cat"), ("dogs", "cats")], strict=True):
        a, b = (folder.tokenizer.encode(text) for text in texts)
        want = [words.cls, *a, words.sep, *b, words.sep]
        assert row == want + [words.pad] * (rows.shape[1] - len(want))
    assert batch.targets.tolist() == [0, 1] and batch.weights == {"label": 2.0}
    assert torch.equal(rows.flatten()[batch.selected], torch.full((2,), words.cls))
    assert batch.tokens == int((~batch.inputs.padding).sum())


def test_long_pairs_are_truncated_and_reported(glue):
    examples = make_examples(glue(), max_tokens=7)
    assert examples.lengths.max() == 7 and "cut" in examples.remark
    assert examples.collate(np.arange(4), None).inputs.tokens.shape == (4, 7)


def test_copies_of_an_example_equal_it(glue):
    examples = make_examples(glue())
    one, copy = (
        examples.collate(np.array([2]), 1),
        examples.collate(np.array([2 + len(examples.lengths)]), 1),
    )
    assert torch.equal(one.inputs.tokens, copy.inputs.tokens) and copy.row_ids.tolist() == [2]


@pytest.mark.parametrize("task", ["RTE", "STS-B"])
def test_idle_rank_and_unlabeled_rows_have_weight_zero(glue, task):
    folder = glue(task)
    idle = make_examples(folder).collate(np.zeros(0, np.int64), None)
    assert idle.weights == {"label": 0.0} and idle.row_ids.tolist() == [-1] and not idle.tokens
    unknown = idle.targets.isnan() if task == "STS-B" else idle.targets == IGNORED
    assert unknown.all()


def test_training_rejects_unlabeled_rows(glue):
    with pytest.raises(ToolkitError, match=r"Split 'test' of .* has rows without labels"):
        make_examples(glue(), "test", training=True)
    batch = make_examples(glue(), "test").collate(np.arange(2), None)
    assert batch.weights == {"label": 0.0} and batch.targets.tolist() == [IGNORED] * 2


def test_tokens_per_sample_changes_the_fingerprint(glue):
    folder = glue()
    assert make_examples(folder).fingerprint != make_examples(folder, max_tokens=9).fingerprint


@pytest.mark.parametrize(("arch", "default"), [("taco_tiny", 128), ("composite_bert_tiny", 128)])
def test_tokens_per_sample_defaults_to_128(arch, default):
    assert (
        resolve_length(GlueConfig(), ARCHITECTURES[arch].config, 128).tokens_per_sample == default
    )


def test_tokens_per_sample_has_no_limit_without_a_position_table():
    c, arch = GlueConfig(tokens_per_sample=9999), ARCHITECTURES["composite_bert"].config
    assert resolve_length(c, arch) == c
    with pytest.raises(ToolkitError, match=r"the architecture's maximum length, 128, but is 9999"):
        resolve_length(c, replace(arch, absolute_positions=True))


@pytest.mark.parametrize(
    ("task", "default"),
    [("glue", 128), ("squad", 384), ("multiple_choice", 512), ("pos_tagging", 512)],
)
def test_tokens_per_sample_has_the_default_of_the_task_without_a_position_table(task, default):
    config, arch = TASKS[task].config, ARCHITECTURES["composite_bert_small"].config
    assert TASKS[task].factory.resolve_for(config, arch).tokens_per_sample == default


def test_tokens_per_sample_may_reach_the_maximum_of_the_architecture():
    c = GlueConfig(tokens_per_sample=512)
    assert resolve_length(c, ARCHITECTURES["taco"].config) == c
    with pytest.raises(ToolkitError, match=r"the architecture's maximum length, 128, but is 512"):
        resolve_length(c, ARCHITECTURES["bert"].config)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"head": "x"}, r"task.head must be one of pooled, plain, gelu, but is 'x'"),
        ({"head_dropout": 1.0}, r"task.head_dropout must be at least 0 and below 1, but"),
        ({"tokens_per_sample": 4}, r"task.tokens_per_sample must be 0 or at least 5, but is 4"),
    ],
)
def test_glue_config_rejects_options_out_of_range(wrong, message):
    with pytest.raises(ToolkitError, match=message):
        GlueConfig(**wrong)
