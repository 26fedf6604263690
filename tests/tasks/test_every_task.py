"""What holds for every task: idle ranks, padding rows, copies, fingerprints, lengths, batches."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tests.tasks.conftest import KINDS
from toolkit import ToolkitError, build_model
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.sections import ComponentConfig
from toolkit.criteria import IGNORED
from toolkit.tasks.examples import SplitSource
from toolkit.training.data import resolve_task

ARCHS = {
    "pos_tagging": "conv_san_ud",
    "translation": "transformer_tiny",
    "denoising": "transformer_tiny",
    "language_modeling": "transformer_lm_tiny",
}
FIXED = ["glue", "regression", "squad", "multiple_choice", "translation", "language_modeling"]
TAGS = ["pos_tagging", "subword_tagging"]
MASKED = ["mlm", "hybrid", "mpm", "rtd", "denoising"]
SHORT = {"squad": {"tokens_per_sample": 16, "stride": 9}}
SHAPE = {"layers": 1, "width": 16, "heads": 2, "feed_forward_width": 16, "dropout": 0.0}
SHAPES = {
    "taco_tiny": {"layers": 1},
    "conv_san_ud": {"layers": 1, "word_width": 8, "character_width": 8, "heads": 2},
    "transformer_tiny": {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0},
    "dynamicconv_tiny": {"encoder_kernels": [3], "decoder_kernels": [3], "dropout": 0.0},
    "convbert_tiny": {"layers": 1},
}
SHAPES["lightconv_tiny"] = SHAPES["dynamicconv_tiny"]


@pytest.fixture
def make_examples(folders):
    def make(kind, split="train", row_multiple=1, arch=None, **options):
        task, arch = KINDS.get(kind, kind), arch or ARCHS.get(kind, "bert_tiny")
        options = {**SHORT.get(kind, {}), **options}
        config = dataclasses.replace(TASKS[task].config, **options)
        given = ComponentConfig(arch, ARCHITECTURES[arch].config)
        resolved = resolve_task(ComponentConfig(task, config), given)
        source = SplitSource(folders(kind), split, 1, row_multiple=row_multiple)
        return TASKS[task].factory.examples(resolved.config, source)

    return make


@pytest.mark.parametrize("kind", [*FIXED, *TAGS, *MASKED])
def test_idle_rank_has_a_batch_of_weight_zero(make_examples, kind):
    examples = make_examples(kind)
    idle = examples.collate(np.zeros(0, np.int64), 1)
    assert not any(idle.weights.values()) and idle.sentences == idle.tokens == 0
    assert idle.inputs.tokens.numel()
    fields = {"targets": IGNORED, "ids": -1, **examples.idle_values}
    found = [(getattr(idle, name, None), value) for name, value in fields.items()]
    for values, value in [(values, value) for values, value in found if values is not None]:
        assert values.isnan().all() if values.is_floating_point() else (values == value).all()


@pytest.mark.parametrize("kind", [*MASKED, "language_modeling", "translation", *TAGS])
def test_row_multiples_pad_the_targets_and_drop_none(make_examples, kind):
    bare, padded = (
        make_examples(kind, row_multiple=multiple).collate(np.arange(3), None)
        for multiple in (1, 64)
    )
    for name in (it for it in bare._fields if it.endswith("targets")):
        values, count = getattr(padded, name), len(getattr(bare, name))
        assert len(values) % 64 == 0 < count % 64
        assert torch.equal(values[:count], getattr(bare, name)) and set(
            values[count:].tolist()
        ) == {IGNORED}
    assert padded.weights == bare.weights
    if kind != "mpm":
        assert not padded.selected[len(bare.selected) :].any()


@pytest.mark.parametrize("kind", [*FIXED, *TAGS])
def test_copies_of_an_example_equal_it(make_examples, kind):
    examples = make_examples(kind)
    one, copy = (examples.collate(np.array([2 + n * len(examples)]), 1) for n in (0, 1))
    assert torch.equal(one.inputs.tokens, copy.inputs.tokens) and one.weights == copy.weights
    for name in (it for it in ("ids",) if getattr(one, it, None) is not None):
        assert torch.equal(getattr(one, name), getattr(copy, name))


CHANGES = {
    "glue": [{"tokens_per_sample": 9}],
    "multiple_choice": [{"tokens_per_sample": 9}],
    "squad": [{"stride": 5}, {"question_tokens": 3}],
    "mlm": [{"mask_rate": 0.2}, {"pair_mode": "electra"}, {"sample_mode": "blocks"}],
    "mpm": [{"position_rate": 0.2}, {"objectives": "mpm"}],
    "language_modeling": [{"sample_mode": "items"}, {"eos_after": "documents"}],
    "pos_tagging": [{"pooling": "mean"}],
    "translation": [{"tokens_per_sample": 90}],
    "denoising": [{"mask_rate": 0.2}, {"permute_sentences": False}, {"poisson_lambda": 2.0}],
}


@pytest.mark.parametrize("kind", CHANGES)
def test_options_and_the_split_change_the_fingerprint(make_examples, kind):
    changes = [{}, *CHANGES[kind], {"split": "valid"}]
    prints = {make_examples(kind, **change).fingerprint for change in changes}
    assert len(prints) == len(changes) and make_examples(kind).fingerprint in prints


@pytest.mark.parametrize(
    ("task", "arch", "options", "given", "tokens"),
    [
        ("glue", "composite_bert_small", {}, 0, 128),
        ("pos_tagging", "composite_bert_small", {}, 0, 512),
        ("glue", "composite_bert_small", {}, 9999, 9999),
        ("pos_tagging", "bert", {}, 0, 128),
        ("pos_tagging", "conv_san", {}, 0, 60),
        ("translation", "transformer", {"positions": "learned", "max_positions": 50}, 0, 50),
        ("language_modeling", "transformer_lm", {}, 2000, 2000),
        ("glue", "bert", {"max_positions": 50}, 60, ToolkitError),
        ("pos_tagging", "bert", {"max_positions": 50}, 60, ToolkitError),
    ],
)
def test_tokens_per_sample_is_as_given_the_default_or_the_maximum(
    task, arch, options, given, tokens
):
    config = dataclasses.replace(TASKS[task].config, tokens_per_sample=given)
    config_of_arch = dataclasses.replace(ARCHITECTURES[arch].config, **options)
    resolve = TASKS[task].factory.resolve_for
    if tokens is ToolkitError:
        with pytest.raises(ToolkitError, match=r"maximum length, 50, but is 60\. Lower it"):
            resolve(config, config_of_arch)
    else:
        assert resolve(config, config_of_arch).tokens_per_sample == tokens


@pytest.mark.parametrize(
    ("task", "archs"),
    [
        ("mlm", ["transformer_tiny", "transformer_lm_tiny"]),
        ("translation", ["bert_tiny", "transformer_lm_tiny"]),
        ("denoising", ["bert_tiny", "transformer_lm_tiny"]),
        ("language_modeling", ["bert_tiny", "transformer_tiny"]),
    ],
)
def test_tasks_require_their_kind_of_architecture(task, archs):
    for arch in archs:
        with pytest.raises(ToolkitError, match=f"Task {task} requires an? .* Choose --arch"):
            build_model(arch, vocabulary_size=17, task=task)


def real_scores(prediction):
    """Scores of the rows with a target, without those of masked classes."""
    scores, targets = prediction
    rows = scores if targets.is_floating_point() else scores[targets != IGNORED]
    return rows[rows > -1e3]


@pytest.mark.parametrize(
    ("kind", "arch"),
    [
        *((kind, arch) for kind in ("glue", "squad") for arch in ("taco_tiny", "convbert_tiny")),
        *((kind, "composite_bert_tiny") for kind in ("glue", "regression", "multiple_choice")),
        *((kind, "taco_tiny") for kind in ("multiple_choice", "mpm", "pos_tagging")),
        *(("pos_tagging", arch) for arch in ("bert_tiny", "conv_san_ud", "composite_bert_tiny")),
        *(("translation", arch) for arch in ("transformer_tiny", "lightconv_tiny")),
        *(
            ("translation", "dynamicconv_tiny"),
            ("denoising", "transformer_tiny"),
            ("language_modeling", "transformer_lm_tiny"),
        ),
        *(("squad", "composite_bert_tiny"), ("mlm", "bert_tiny"), ("subword_tagging", "bert_tiny")),
    ],
)
@torch.no_grad()
def test_scores_do_not_depend_on_the_other_examples(folders, make_examples, kind, arch):
    torch.manual_seed(0)
    shape = SHAPES.get(arch, SHAPE)
    learner = build_model(
        arch, tokenizer=folders(kind).tokenizer, task=KINDS.get(kind, kind), **shape
    ).eval()
    for parameter in learner.parameters():
        parameter.normal_(0, 0.3)
    examples = make_examples(kind, arch=arch)
    together = learner(examples.collate(np.arange(3), None))
    alone = [learner(examples.collate(np.array([i]), None)) for i in range(3)]
    for name, prediction in together.items():
        each = torch.cat([real_scores(it[name]).flatten() for it in alone])
        assert len(each)
        torch.testing.assert_close(real_scores(prediction).flatten(), each, atol=2e-5, rtol=1e-4)
