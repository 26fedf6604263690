import pytest
import torch

from toolkit.distributed import World
from toolkit.optim.update import SpikeDetector
from toolkit.training.run import TrainingRun


def fed(values, **options):
    spikes = SpikeDetector(torch.device("cpu"), **options)
    return spikes, [float(spikes(torch.tensor(x), torch.tensor(y))) for x, y in values]


def noise(count, seed=0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(count, 2, generator=random) * 0.1 + 1).tolist()


def test_spike_is_six_sigma_above_the_mean_of_the_window():
    values = noise(300)
    window = torch.tensor(values[-128:])
    bound = window.mean(0) + 6 * window.std(0)
    for which in (0, 1):
        for factor, verdict in ((0.9999, 0.0), (1.0001, 1.0)):
            last = window.mean(0)
            last[which] = bound[which] * factor
            assert fed([*values, last.tolist()])[1] == [0.0] * 300 + [verdict]


def test_spike_detector_adapts_to_a_lasting_change():
    *_, last = fed([*noise(100), *([(50.0, 1.0)] * 20)])[1]
    assert last == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_spike_window_omits_non_finite_values(value):
    spikes, _ = fed([*noise(100), (value, 1.0), (1.0, value)])
    assert int(spikes.taken) == 100 and spikes.values.isfinite().all()


def test_spike_detector_restores_its_window():
    values = noise(200)
    whole, verdicts = fed([*values, (3.0, 1.0), (1.2, 9.0)])
    first, _ = fed(values)
    second = SpikeDetector(torch.device("cpu"))
    second.restore(first.state())
    tail = [(3.0, 1.0), (1.2, 9.0)]
    got = [float(second(torch.tensor(x), torch.tensor(y))) for x, y in tail]
    assert got == verdicts[-2:] and second.state() == whole.state()


def test_spike_skips_the_update_and_is_counted(make_trainer, batch):
    trainer = make_trainer(spike_detector=SpikeDetector(torch.device("cpu"), window=8))
    data = [batch([[3, 5, 4, 5], [4, 4, 3, 6]])]
    for _ in range(8):
        assert not trainer.step(data, 1).outcome.skipped
    before, sums = trainer.parameters[0].clone(), trainer.criterion.forward
    trainer.criterion.forward = lambda p: {k: v * 1e9 for k, v in sums(p).items()}
    outcome = trainer.step(data, 1).outcome
    assert outcome.skipped and outcome.norm.isfinite()
    assert torch.equal(trainer.parameters[0], before)


def test_resumed_run_restores_the_spike_window(config):
    first = TrainingRun(config(skip_spikes=True, max_update=3), World())
    first.fit()
    first.close()
    again = TrainingRun(config(skip_spikes=True, max_update=5), World())
    assert again.trainer.spike_detector.state() == first.trainer.spike_detector.state()
    assert again.trainer.spike_detector.state()["taken"] == 3
    again.close()


@pytest.mark.gpu
def test_spike_detector_does_not_wait_for_the_gpu():
    gpu = torch.device("cuda", 0)
    spikes, loss, norm = SpikeDetector(gpu), torch.ones((), device=gpu), torch.ones((), device=gpu)
    torch.cuda.set_sync_debug_mode("error")
    try:
        spikes(loss, norm)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert int(spikes.taken) == 1
