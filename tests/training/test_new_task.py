"""Runs that continue with another task: causal, then masked pre-training."""

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training.run import TrainingRun

FIRST = {"task": "hybrid", "task.causal_ratio": 1.0, "arch": "bert_tiny"}
THEN = {"task": "mlm", "arch": "bert_tiny", "checkpoint.new_task": True}


@pytest.fixture
def then(config, tmp_path, stopped):
    """The options of the second task, after three updates of the first."""
    stopped(config(**FIRST, save_dir=str(tmp_path / "first")), 3)
    return lambda **more: config(**{**THEN, "restore_file": str(tmp_path / "first"), **more})


def test_new_task_keeps_weights_optimizer_and_words(config, then, tmp_path):
    first = TrainingRun(config(**FIRST, save_dir=str(tmp_path / "first")), World())
    second = TrainingRun(then(), World())
    before, after = first.trainer, second.trainer
    assert (before.progress.update, before.progress.epoch, before.progress.consumed) == (3, 1, 3)
    assert (after.progress.update, after.progress.epoch, after.progress.consumed) == (3, 2, 0)
    assert after.progress.words == before.progress.words > 0
    of_first = dict(before.learner.named_parameters())
    for name, p in after.learner.named_parameters():
        assert torch.equal(p, of_first[name]), name
        for quantity, value in before.optimizer.state[of_first[name]].items():
            found = after.optimizer.state[p][quantity]
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(found)), (name, quantity)
    assert before.optimizer.state[before.learner.encoder.token_embedding.weight]


@pytest.mark.slow
def test_run_with_a_new_task_resumes_bit_for_bit(then, resumes_exactly):
    resumes_exactly(6, {"max_epoch": 3}, then, since=3)


def test_heads_that_do_not_fit_start_without_optimizer_state(then, capfd):
    training = TrainingRun(then(task="rtd"), World())
    heads = {"encoder": 0, "task": 0}
    for name, p in training.trainer.learner.named_parameters():
        heads[name.split(".")[0]] += p in training.trainer.optimizer.state
    assert heads["encoder"] > 9 and not heads["task"]
    assert "loaded 19 of 42 tensors" in " ".join(capfd.readouterr().err.split())
    training.fit()
    assert training.trainer.progress.update == 8


def test_another_task_is_refused_without_the_option(then):
    with pytest.raises(ToolkitError, match=r"task\.name was 'hybrid' and is now 'mlm'"):
        TrainingRun(then(**{"checkpoint.new_task": False}), World())
