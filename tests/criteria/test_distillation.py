"""Distillation against a loop over rows and classes in float64, and whole runs."""

from __future__ import annotations

import math

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED, Classes
from toolkit.criteria.distillation import Distillation, DistillationConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed import World
from toolkit.training.run import TrainingRun, run

ROWS, CLASSES, WEIGHT, HEAT = 5, 7, 0.3, 1.7


def softmax(row):
    total = sum(math.exp(it) for it in row)
    return [math.exp(it) / total for it in row]


def test_loss_equals_a_loop_and_its_gradient_is_that_of_the_loop():
    draw = torch.Generator().manual_seed(1)
    logits, *teachers = torch.randn(3, ROWS, CLASSES, generator=draw, dtype=torch.float64)
    targets = torch.tensor([1, IGNORED, 6, 0, 3])
    criterion = Distillation(DistillationConfig(teacher_weight=WEIGHT, temperature=HEAT))
    criterion.teachers = [lambda _, it=it: {"mlm": Classes(it, targets)} for it in teachers]

    def loss(values):
        criterion.observe(dict, None)
        return criterion({"mlm": Classes(values, targets)})["mlm"]

    found, total = loss(logits.requires_grad_()), 0.0
    mean = [
        [sum(both) / 2 for both in zip(*rows, strict=True)]
        for rows in zip(*(it.tolist() for it in teachers), strict=True)
    ]
    for row, taught, target in zip(logits.tolist(), mean, targets.tolist(), strict=True):
        if target != IGNORED:
            p, q = (softmax([it / HEAT for it in each]) for each in (taught, row))
            divergence = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
            total -= (1 - WEIGHT) * math.log(softmax(row)[target])
            total += WEIGHT * HEAT**2 * divergence
    assert float(found.detach()) == pytest.approx(total, rel=1e-6)
    assert torch.autograd.gradcheck(loss, logits, eps=1e-5, atol=1e-3)
    with torch.no_grad():
        assert float(loss(logits)) != pytest.approx(total)


@pytest.fixture
def taught(config, tmp_path):
    """The options of a run with two teachers."""
    for seed in (1, 2):
        run(config(save_dir=str(tmp_path / f"teacher{seed}"), seed=seed, max_epoch=1))
    teachers = ",".join(str(tmp_path / f"teacher{seed}") for seed in (1, 2))
    return {"criterion": "distillation", "criterion.teachers": teachers}


@pytest.mark.slow
def test_run_with_teachers_resumes_bit_for_bit(taught, resumes_exactly):
    resumes_exactly(3, taught)


@pytest.mark.slow
def test_students_of_two_ranks_equal_that_of_one_process(taught, same_on_two_ranks):
    same_on_two_ranks(taught, shardings=["none"])


def test_teachers_of_another_vocabulary_or_task_are_refused(config, taught, tmp_path):
    with pytest.raises(ToolkitError, match="distillation requires teachers"):
        TrainingRun(config(**{**taught, "criterion.teachers": []}), World())
    with pytest.raises(ToolkitError, match="must be trained with the task of this run, hybrid"):
        TrainingRun(config(**taught, task="hybrid"), World())
    tokenizer = Tokenizer.train(["a b c d e f"] * 9, kind="words", vocabulary_size=12)
    build_model("bert_tiny", tokenizer=tokenizer, task="mlm").save(tmp_path / "words")
    with pytest.raises(ToolkitError, match="the data must have the tokenizer of") as caught:
        TrainingRun(config(**{**taught, "criterion.teachers": str(tmp_path / "words")}), World())
    assert "\n" not in str(caught.value)
