import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.training.callbacks.non_finite import (
    NonFiniteGuard,
    diagnose_non_finite,
)


def fit(trainer, data, updates=50):
    trainer.fit(lambda epoch: data, max_update=updates, callbacks=[NonFiniteGuard(trainer)])


def named(trainer, batch):
    return diagnose_non_finite(trainer.accumulator, [batch], batch.weights)


def test_ten_non_finite_updates_stop_training_and_name_the_layer(make_trainer, batches, memory):
    trainer = make_trainer()
    trainer.learner.encoder.mix.register_forward_hook(lambda m, i, y: y / 0)
    with pytest.raises(ToolkitError, match=r"10 updates in a row .* the output of encoder\.mix"):
        fit(trainer, memory(batches))
    assert trainer.progress.update == 10


def test_finite_update_resets_the_streak(make_trainer, batches, memory):
    trainer = make_trainer()
    broken = [True] * 9 + [False] + [True] * 9 + [False] * 9

    def hook(module, inputs, output):
        return output / 0 if broken[trainer.progress.update] else output

    trainer.learner.encoder.mix.register_forward_hook(hook)
    fit(trainer, memory(batches), 28)
    assert trainer.progress.update == 28


def test_diagnosis_names_a_non_finite_parameter_first(make_trainer, batches):
    trainer = make_trainer()
    with torch.no_grad():
        trainer.learner.task.word.weight[0, 0] = torch.nan
    assert named(trainer, batches[0]) == "the parameter task.word.weight"


def test_diagnosis_names_an_output_gradient(make_trainer, batches):
    class Steep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * torch.inf

    trainer = make_trainer()
    trainer.learner.encoder.norm.register_forward_pre_hook(lambda m, inputs: Steep.apply(*inputs))
    found = named(trainer, batches[0])
    assert found == "the gradient at the output of encoder.dropout (Dropout)"


def test_diagnosis_leaves_no_gradient_and_no_hook(make_trainer, batches):
    trainer = make_trainer()
    named(trainer, batches[0])
    assert all(p.grad is None for p in trainer.parameters)
    assert not any(module._forward_hooks for module in trainer.learner.modules())
    assert not any(p._backward_hooks for p in trainer.parameters)


def test_loss_scale_below_its_minimum_stops_training_and_names_the_layer(
    make_trainer, batches, memory
):
    trainer = make_trainer(precision="fp16")
    trainer.learner.encoder.mix.register_forward_hook(lambda m, i, y: y / 0)
    error = r"loss scale of fp16 must stay above 0\.0001, but is 6\.1e-05 after update 29 \(epoch 4"
    with pytest.raises(
        ToolkitError, match=error + r"\); .*: the output of encoder\.mix \(Linear\)"
    ):
        fit(trainer, memory(batches))


def test_fp16_overflows_above_the_minimum_scale_do_not_stop_training(make_trainer, batches, memory):
    trainer = make_trainer(precision="fp16")
    trainer.precision.loss_scale.scale.fill_(2.0**40)
    fit(trainer, memory(batches), 40)
    assert trainer.precision.loss_scale.good >= 1
