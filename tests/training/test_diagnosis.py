import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.training.diagnosis import NonFinite, first_non_finite


def test_ten_skipped_updates_in_a_row_end_training_with_the_layer(make_trainer, batches, memory):
    trainer = make_trainer()
    trainer.learner.encoder.mix.register_forward_hook(lambda m, i, y: y / 0)
    with pytest.raises(ToolkitError, match=r"10 updates in a row .* the output of encoder\.mix"):
        trainer.fit(lambda epoch: memory(batches), max_update=50, observers=[NonFinite(trainer)])
    assert trainer.place.update == 10


def test_a_streak_that_ends_is_forgotten(make_trainer, batches, memory):
    trainer = make_trainer()
    broken = [True] * 9 + [False] + [True] * 9 + [False] * 9

    def hook(module, inputs, output):
        return output / 0 if broken[trainer.place.update] else output

    trainer.learner.encoder.mix.register_forward_hook(hook)
    trainer.fit(lambda epoch: memory(batches), max_update=28, observers=[NonFinite(trainer)])
    assert trainer.place.update == 28


def test_a_broken_parameter_is_named_before_any_layer(make_trainer, batches):
    trainer = make_trainer()
    with torch.no_grad():
        trainer.learner.task.word.weight[0, 0] = torch.nan
    found = first_non_finite(trainer.learner, trainer.criterion, batches[0])
    assert found == "the parameter task.word.weight"


def test_a_finite_forward_pass_has_no_such_layer(make_trainer, batches):
    trainer = make_trainer()
    assert first_non_finite(trainer.learner, trainer.criterion, batches[0]) is None
