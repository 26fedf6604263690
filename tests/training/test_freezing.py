"""Runs with frozen modules: --freeze."""

from __future__ import annotations

import pytest
import torch

from toolkit import ToolkitError, build_model, load_checkpoint
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common import json_files
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.nn.ops.dropout import Dropout
from toolkit.tasks.examples import TargetBatch
from toolkit.training.callbacks.logging import update_flops
from toolkit.training.flop_counter import FlopCounter
from toolkit.training.run import TrainingRun

FROZEN = ["embeddings", "layers.0"]
PREFIXES = ("encoder.embeddings.", "encoder.layers.0.")


def make_learner(arch="composite_bert_tiny", **options):
    torch.manual_seed(0)
    shape = {"layers": 2, **options}
    return build_model(arch, vocabulary_size=30, task="mlm", **shape)


def make_batch():
    tokens = torch.randint(5, 30, (3, 8))
    return TargetBatch(Inputs(tokens), torch.arange(6), tokens.flatten()[:6], {"mlm": 6.0}, 3, 24)


def summed_loss(learner, batch):
    scores, targets = learner(batch)["mlm"]
    return torch.nn.functional.cross_entropy(scores, targets, reduction="sum")


@pytest.mark.slow
def test_frozen_parameters_stay_bit_equal_and_all_others_train(config, tmp_path):
    options = {"freeze": FROZEN, "arch__layers": 2, "lr": 0.01, "ema_decay": 0.9}
    training = TrainingRun(config(**options), World())
    before = {name: p.clone() for name, p in training.trainer.learner.named_parameters()}
    result = training.fit()
    training.close()
    folder = tmp_path / "run" / "checkpoint_last"
    moments = {name.partition("::")[0] for name in read_tensors(folder / "optimizer.safetensors")}
    for weights in ("trained", "average"):
        after = dict(load_checkpoint(folder, weights=weights).named_parameters())
        for name, p in after.items():
            frozen = name.startswith(PREFIXES)
            assert torch.equal(p, before[name]) == frozen, name
            assert (name in moments) != frozen
    counts = [
        sum(p.numel() for n, p in after.items() if n.startswith(PREFIXES) == it) for it in (0, 1)
    ]
    assert [result.parameters, result.frozen_parameters] == counts
    saved = json_files.loads((tmp_path / "run" / "result.json").read_text())
    assert saved["frozen_parameters"] == counts[1]


def test_gradients_of_trained_parameters_are_those_without_freezing():
    batch, gradients = make_batch(), []
    for frozen in ([], FROZEN):
        learner = make_learner(dropout=0.0, attention_dropout=0.0)
        learner.freeze(frozen)
        summed_loss(learner.train(), batch).backward()
        gradients.append({name: p.grad for name, p in learner.named_parameters()})
    everything, some = gradients
    for name, gradient in some.items():
        if name.startswith(PREFIXES):
            assert gradient is None
        else:
            assert torch.equal(gradient, everything[name])


def test_frozen_modules_have_no_dropout_in_training():
    learner = make_learner()
    learner.freeze(FROZEN)
    for mode in (False, True):
        learner.train(mode)
        for name, module in learner.named_modules():
            if isinstance(module, Dropout):
                assert module.training == (mode and not name.startswith(PREFIXES)), name


@pytest.mark.parametrize(
    ("arch", "frozen"), [("bert_tiny", FROZEN), ("composite_bert_tiny", ["encoder"])]
)
def test_update_flops_of_frozen_modules_are_those_of_the_backward_pass(arch, frozen):
    learner, batch = make_learner(arch), make_batch()
    learner.freeze(frozen)
    with FlopCounter() as counter:
        summed_loss(learner.train(), batch).backward()
    found = update_flops(learner, batch, torch.device("cpu"))
    assert found == pytest.approx(counter.total, rel=0.01)
    assert found < update_flops(make_learner(arch), batch, torch.device("cpu"))


def test_freezing_everything_is_rejected():
    learner = build_model("bert_tiny", vocabulary_size=9, task="encode")
    with pytest.raises(ToolkitError, match="freezing encoder leaves no parameter to train"):
        learner.freeze(["encoder"])


def test_start_row_tells_trained_parameters_from_all(config):
    from toolkit.training.result import describe_parameters

    learner = make_learner()
    total = sum(p.numel() for p in learner.parameters())
    assert describe_parameters(learner) == f"{total:,} parameters"
    learner.freeze(["encoder"])
    heads = sum(p.numel() for p in learner.task.parameters())
    assert describe_parameters(learner) == f"{total:,} parameters, {heads:,} of them trained"
