import pytest

from toolkit.distributed import World
from toolkit.training.run import Run


def test_the_first_weights_are_the_seeds(config, tmp_path):
    def weights(seed, name):
        c = config(seed=seed, save_dir=str(tmp_path / name))
        return Run(c, World()).trainer.parameters[0].tolist()

    assert weights(1, "a") == weights(1, "b") != weights(2, "c")


def test_a_run_keeps_the_precision_that_it_began_with(config):
    first = Run(config(max_update=1, precision="bf16"), World())
    first.fit()
    first.close()
    again = Run(config(max_update=2, precision="auto"), World())
    assert again.trainer.precision.name == "bf16"


@pytest.mark.parametrize("options", [{"update_freq": 3}, {"clip_norm": 0.5}])
def test_the_trainer_takes_its_options_from_the_config(config, options):
    trainer = Run(config(**options), World()).trainer
    assert all(getattr(trainer, name) == value for name, value in options.items())
