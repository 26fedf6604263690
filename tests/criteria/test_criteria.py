"""Distillation, R-Drop and regression."""

from __future__ import annotations

import math

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA
from toolkit.criteria import IGNORED, Classes, Values
from toolkit.criteria.distillation import Distillation, DistillationConfig, RDrop, RDropConfig
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


def test_teachers_have_no_dropout(config, taught):
    teachers = TrainingRun(config(**taught), World()).trainer.criterion.teachers
    assert [module.training for it in teachers for module in it.modules()].count(True) == 0


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


@pytest.mark.parametrize("options", [{}, {"tokens_per_sample": "8@0,16@1epochs"}])
def test_teachers_that_read_fewer_tokens_are_refused_at_the_start(config, tmp_path, options):
    short = {"arch": "bert_tiny", "max_positions": 8, "tokens_per_sample": 8}
    run(config(save_dir=str(tmp_path / "short"), max_epoch=1, **short))
    teacher = {"criterion": "distillation", "criterion.teachers": str(tmp_path / "short")}
    with pytest.raises(ToolkitError, match=r"short reads at most 8 tokens .* has [12]") as caught:
        TrainingRun(config(**teacher, **options), World())
    assert "\n" not in str(caught.value)


def test_teachers_of_other_objectives_are_refused_at_the_start(config, tmp_path):
    arch = {"arch": "bert_tiny", "arch.positions": ["rope"], "task": "mpm"}
    run(config(**arch, save_dir=str(tmp_path / "both"), max_epoch=1))
    teacher = {"criterion": "distillation", "criterion.teachers": str(tmp_path / "both")}
    with pytest.raises(ToolkitError, match=r"classes of this run, mlm 35, but .* mlm 35, mpm"):
        TrainingRun(config(**arch, **teacher, **{"task.objectives": "mlm"}), World())


R_DROP = {"criterion": "r_drop", "criterion.divergence_weight": 3.0, "log_interval": 7}


def test_loss_of_two_passes_equals_a_loop():
    draw = torch.Generator().manual_seed(1)
    passes = torch.randn(2, 5, 7, generator=draw, dtype=torch.float64).requires_grad_()
    targets, criterion = (
        torch.tensor([1, IGNORED, 6, 0, 3]),
        RDrop(RDropConfig(divergence_weight=3)),
    )

    def loss(values):
        criterion.observe(lambda _: {"mlm": Classes(values[0], targets)}, None)
        return criterion({"mlm": Classes(values[1], targets)})["mlm"]

    total, each = 0.0, zip(*passes.tolist(), targets.tolist(), strict=True)
    for one, two, target in each:
        if target != IGNORED:
            p, q = softmax(one), softmax(two)
            both = sum((a - b) * math.log(a / b) for a, b in zip(p, q, strict=True))
            total += (3 / 2 * both - math.log(p[target]) - math.log(q[target])) / 2
    assert float(loss(passes).detach()) == pytest.approx(total, rel=1e-9)
    assert torch.autograd.gradcheck(loss, passes)
    with torch.no_grad():  # of one pass
        plain = criterion({"mlm": Classes(passes[1], targets)})["mlm"]
    rows = zip(passes[1].tolist(), targets.tolist(), strict=True)
    expected = -sum(math.log(softmax(row)[it]) for row, it in rows if it != IGNORED)
    assert float(plain) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_passes_of_a_run_differ(config, tmp_path):
    losses = []
    for weight in (0.01, 3.0):
        options = {**R_DROP, "arch.dropout": 0.3, "criterion.divergence_weight": weight}
        losses.append(run(config(**options, save_dir=str(tmp_path / str(weight)))).train["loss"])
    assert losses[0] < losses[1]


def test_objectives_of_numbers_are_refused_at_the_start(config):
    with pytest.raises(ToolkitError, match="r_drop requires objectives that predict classes"):
        TrainingRun(config(**R_DROP, task="rtd", arch="bert_tiny"), World())


def total(prediction):
    entry = CRITERIA["cross_entropy"]
    return entry.factory(entry.config)({"score": prediction})["score"]


def test_loss_of_numbers_is_their_squared_error():
    values = torch.tensor([1.0, -2.0, 7.0], requires_grad=True)
    loss = total(Values(values, torch.tensor([0.5, 0.0, math.nan])))
    loss.backward()
    assert loss.item() == 0.25 + 4.0
    assert values.grad.tolist() == [1.0, -4.0, 0.0]


def test_squared_error_of_bf16_is_summed_in_fp32():
    values = torch.ones(1000, dtype=torch.bfloat16)
    assert total(Values(values, torch.zeros(1000))).item() == 1000.0
