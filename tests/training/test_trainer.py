import pytest
import torch

from toolkit.distributed import World
from toolkit.optim.update import SpikeDetector
from toolkit.training.run import TrainingRun


def parameters(trainer):
    return {name: p.detach().clone() for name, p in trainer.learner.named_parameters()}


def close(got, want, atol=1e-6):
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor, atol=atol, rtol=0, msg=name)


def test_two_micro_batches_of_unequal_weight_equal_one_batch(make_trainer, batch):
    a, b = [[3, 5, 4, 5], [4, 4, 3, 6]], [[2, 1, 1, 1], [6, 1, 2, 3], [8, 1, 1, 9]]
    together, apart = make_trainer(), make_trainer()
    together.step([batch(a + b)], 1)
    apart.step([batch(a), batch(b)], 2)
    close(parameters(apart), parameters(together))


def test_update_follows_the_gradient_of_the_weighted_means(make_trainer, batch):
    trainer = make_trainer(lr=0.5)
    data = batch([[3, 5, 4, 5], [4, 4, 3, 6], [5, 1, 1, 1]])
    before = parameters(trainer)
    totals = trainer.criterion(trainer.learner(data))
    mean = totals["word"] / 3 + 0.5 * totals["even"] / 2
    gradients = torch.autograd.grad(mean, trainer.parameters)
    trainer.step([data], 1)
    wanted = {name: p - 0.5 * g for (name, p), g in zip(before.items(), gradients, strict=True)}
    close(parameters(trainer), wanted)


def test_objective_without_predictions_does_not_affect_the_others(make_trainer, batch):
    step = make_trainer().step([batch([[2, 5, 4, 5]])], 1)
    assert step.weights == {"word": 1.0, "even": 0.0}
    assert step.outcome.norm > 0 and not step.outcome.skipped


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_non_finite_loss_skips_the_update(make_trainer, batch, fused, poison):
    def adam(parameters):
        return torch.optim.AdamW(parameters, fused=fused)

    trainer = make_trainer(optimizer=adam)
    before, sums = parameters(trainer), trainer.criterion.forward
    trainer.criterion.forward = lambda p: {k: v + poison for k, v in sums(p).items()}
    step = trainer.step([batch([[3, 5, 4, 5]])], 1)
    assert step.outcome.skipped == 1
    close(parameters(trainer), before, atol=0)
    trainer.criterion.forward = sums
    assert trainer.step([batch([[3, 5, 4, 5]])], 1).outcome.skipped == 0


@pytest.mark.parametrize("fused", [True, False])
def test_clipping_scales_the_gradient_down_to_clip_norm(make_trainer, batch, fused):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1.0, fused=fused)

    trainer = make_trainer(optimizer=sgd, clip_norm=0.01)
    before = parameters(trainer)
    step = trainer.step([batch([[3, 5, 4, 5]])], 1)
    moved = [(before[k] - v).square().sum() for k, v in parameters(trainer).items()]
    assert step.outcome.clipped == 1 and step.outcome.norm > 0.01
    assert torch.stack(moved).sum().sqrt() == pytest.approx(0.01, rel=1e-4)


def test_dropout_depends_only_on_seed_and_progress(make_trainer, batches, memory):
    options = {"dropout": 0.5, "update_freq": 2}
    whole = make_trainer(**options)
    whole.fit(lambda epoch: memory(batches), max_update=4)
    torch.manual_seed(99)
    again = make_trainer(**options)
    again.fit(lambda epoch: memory(batches), max_update=2)
    torch.rand(7)
    again.fit(lambda epoch: memory(batches), max_update=4)
    close(parameters(again), parameters(whole), atol=0)
    other = make_trainer(**options, seed=2)
    other.fit(lambda epoch: memory(batches), max_update=4)
    assert not torch.equal(parameters(other)["encoder.mix.weight"], whole.parameters[1])


def test_fit_stops_at_max_update_and_max_epoch(make_trainer, batches, memory):
    seen = []
    trainer = make_trainer(update_freq=3)
    trainer.fit(
        lambda epoch: memory(batches),
        max_update=100,
        max_epoch=2,
        callbacks=[lambda step: seen.append((step.update, step.epoch, step.ends_epoch))],
    )
    ends = [False, False, True]
    assert seen == [(n + 1, n // 3 + 1, ends[n % 3]) for n in range(6)]


def test_learning_rate_follows_the_schedule(make_trainer, batches, memory):
    rates = []
    trainer = make_trainer(lr=0.5, schedule=lambda n: 1 / n)
    callbacks = [lambda step: rates.append(step.learning_rate)]
    trainer.fit(lambda epoch: memory(batches), max_update=3, callbacks=callbacks)
    assert rates == [0.5, 0.25, 0.5 / 3]


def test_request_stop_prevents_the_next_update(make_trainer, batches, memory):
    trainer = make_trainer()

    def callback(step):
        if step.update == 2:
            trainer.request_stop()

    trainer.fit(lambda epoch: memory(batches), max_update=5, callbacks=[callback])
    assert trainer.progress.update == 2


def test_fp16_gradients_are_scaled_and_unscaled_again(make_trainer, batch):
    data = [batch([[3, 5, 4, 5], [4, 4, 3, 6]])]
    half, full = make_trainer(precision="fp16"), make_trainer()
    a, b = half.step(data, 1), full.step(data, 1)
    assert float(a.outcome.norm) == pytest.approx(float(b.outcome.norm), rel=0.01)
    close(parameters(half), parameters(full), atol=1e-3)
    assert float(half.precision.loss_scale.good) == 1


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
