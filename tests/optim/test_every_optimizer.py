"""What holds for every optimizer there is: skipping, clipping, finite state, fast learning."""

from dataclasses import replace

import pytest
import torch

from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.update import clip_and_step

NAMES = sorted(OPTIMIZERS.builtins)
VARIANTS = [
    *((name, {}) for name in NAMES),
    ("sgd", {"momentum": 0.9, "nesterov": True}),
    ("adamw", {"bias_correction": False}),
    ("rmsprop", {"momentum": 0.9, "centered": True}),
    ("adafactor", {"beta1": 0.9}),
    ("muon", {"bias_correction": False}),
]


def built(name, options, device="cpu"):
    torch.manual_seed(0)
    named = [
        ("encoder.layers.0.wide.weight", torch.nn.Parameter(torch.randn(4, 3).to(device))),
        ("encoder.layers.0.wide.bias", torch.nn.Parameter(torch.randn(4).to(device))),
    ]
    config = replace(OPTIMIZERS[name].config, lr=0.1, **options)
    return OPTIMIZERS[name].factory(config, named), [p for _, p in named]


def give(parameters, scale=1.0, seed=0):
    random = torch.Generator().manual_seed(seed)
    for p in parameters:
        p.grad = (scale * torch.randn(p.shape, generator=random)).to(p.device)


def everything(optimizer, parameters):
    states = [value for p in parameters for value in optimizer.state[p].values()]
    return [t.detach().clone() for t in (*parameters, *states)]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_an_update_that_is_not_finite_changes_neither_parameters_nor_state(name, options):
    optimizer, parameters = built(name, options)
    for seed in range(2):
        give(parameters, seed=seed)
        clip_and_step(optimizer, parameters, clip_norm=1.0)
    before = everything(optimizer, parameters)
    give(parameters, float("inf"))
    assert clip_and_step(optimizer, parameters, clip_norm=1.0).skipped
    after = everything(optimizer, parameters)
    assert all(torch.equal(was, now) for was, now in zip(before, after, strict=True))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_run_whose_first_update_is_skipped_equals_one_without_it(name, options):
    ends = []
    for skips in (True, False):
        optimizer, parameters = built(name, options)
        if skips:
            give(parameters, float("nan"))
            clip_and_step(optimizer, parameters, clip_norm=1.0)
        for seed in range(3):
            give(parameters, seed=seed)
            clip_and_step(optimizer, parameters, clip_norm=1.0)
        ends.append(everything(optimizer, parameters))
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_scaled_and_clipped_gradient_moves_as_the_short_one_does(name, options):
    ends = []
    for scale in (1.0, 64.0):
        optimizer, parameters = built(name, options)
        give(parameters, scale * 8)
        clip_and_step(optimizer, parameters, clip_norm=1.0, loss_scale=torch.tensor(scale))
        ends.append([p.detach() for p in parameters])
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_state_is_kept_in_fp32_tensors(name, options):
    optimizer, parameters = built(name, options)
    give(parameters)
    optimizer.step()
    for p in parameters:
        assert {t.dtype for t in optimizer.state[p].values()} <= {torch.float32}


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_the_rate_of_each_group_is_heeded(name, options):
    optimizer, parameters = built(name, options)
    before = [p.detach().clone() for p in parameters]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    give(parameters)
    optimizer.step()
    assert all(torch.equal(was, p) for was, p in zip(before, parameters, strict=True))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_parabola_is_descended(name, options):
    optimizer, parameters = built(name, options)
    start = sum(float(p.detach().square().sum()) for p in parameters)
    for _ in range(100):
        for p in parameters:
            p.grad = 2 * p.detach()
        optimizer.step()
    assert sum(float(p.detach().square().sum()) for p in parameters) < start / 4


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_gpu_moves_parameters_as_a_cpu_does(name, options):
    ends = []
    for device in ("cpu", "cuda"):
        optimizer, parameters = built(name, options, device)
        for seed in range(3):
            give(parameters, seed=seed)
            clip_and_step(optimizer, parameters, clip_norm=1.0)
        ends.append([p.detach().cpu() for p in parameters])
    loose = 2e-2 if name == "muon" else 1e-5  # its matrices are orthogonalised in bf16
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, atol=loose, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adafactor", "lamb", "muon"])
def test_an_optimizer_of_ours_does_not_wait_for_the_gpu(name):
    optimizer, parameters = built(name, {}, "cuda")
    give(parameters)
    optimizer.step()
    give(parameters)
    torch.cuda.set_sync_debug_mode("error")
    try:
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
