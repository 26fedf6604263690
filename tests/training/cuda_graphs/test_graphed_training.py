"""Training with graphs, recorded and replayed on a CPU, equals training without, bit for bit."""

from __future__ import annotations

import pytest

from tests.helpers.operation_recorder import OperationRecorder
from toolkit.distributed import World
from toolkit.training.cuda_graphs import record_updates
from toolkit.training.run import TrainingRun

RATES = {"lr": 2**-7, "lr_scheduler": "fixed", "warmup_updates": 16}
"""Every learning rate is a number of fp32, in which graphs have it."""
RUN = {"log_interval": 1, "max_update": 14, "max_epoch": None, **RATES}
CASES = {
    "changing weights and shapes": {"task": "mlm"},
    "two networks": {"arch": "convbert_tiny", "task": "rtd", "mask_rate": 0.3},
    "gradient accumulation": {"arch": "bert_tiny", "update_freq": 3},
    "an optimizer that is not captured": {"optimizer": "lamb"},
    "spikes, layer-wise learning rates, a moving average and frozen modules": {
        **{"skip_spikes": True, "layerwise_lr_decay": 0.5, "ema_decay": 0.9},
        **{"freeze": ["embeddings"], "arch.layers": 2},
    },
}


@pytest.fixture
def train(config, tmp_path):
    """Trains into a folder until an update, with graphs if there is a recorder for them."""

    def run(folder, recorder=None, stop_at=None, **options):
        training = TrainingRun(config(**RUN, **options, save_dir=str(tmp_path / folder)), World())
        messages = []
        if recorder:
            record_updates(training.trainer, recorder, messages.append)

        def advance(step):
            if step.update == stop_at:
                training.trainer.request_stop()

        training.advance_progress_bar = advance
        try:
            training.fit()
        finally:
            training.close()
        assert not messages
        return tmp_path / folder

    return run


@pytest.mark.slow
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_training_with_graphs_equals_training_without(train, end_of, options):
    recorder = OperationRecorder()
    graphed, plain = train("graphed", recorder, **options), train("plain", **options)
    assert recorder.captures > 2 and recorder.replays > 5
    assert end_of(graphed) == end_of(plain)


@pytest.mark.slow
def test_run_with_graphs_resumes_to_the_same_weights(train, end_of):
    train("cut", OperationRecorder(), stop_at=9)
    assert end_of(train("cut", OperationRecorder())) == end_of(train("plain"))
