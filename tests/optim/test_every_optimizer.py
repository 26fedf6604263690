"""Properties of every built-in optimizer: skipping, clipping, state in fp32, convergence."""

from dataclasses import replace

import pytest
import torch

from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.update import clip_and_step, step_and_restore, step_unless_skipped

NAMES = sorted(OPTIMIZERS.builtins)
VARIANTS = [
    *((name, {}) for name in NAMES),
    ("sgd", {"momentum": 0.9, "nesterov": True}),
    ("adamw", {"bias_correction": False}),
    ("rmsprop", {"momentum": 0.9, "centered": True}),
    ("adafactor", {"beta1": 0.9}),
    ("muon", {"bias_correction": False}),
    ("muon", {"normuon_beta2": 0.9, "newton_schulz": "polar_express", "cautious_decay": True}),
]


def build(name, options, device="cpu"):
    torch.manual_seed(0)
    named = [
        ("encoder.layers.0.wide.weight", torch.nn.Parameter(torch.randn(4, 3).to(device))),
        ("encoder.layers.0.wide.bias", torch.nn.Parameter(torch.randn(4).to(device))),
    ]
    config = replace(OPTIMIZERS[name].config, lr=0.1, **options)
    return OPTIMIZERS[name].factory(config, named), [p for _, p in named]


def set_gradients(parameters, scale=1.0, seed=0):
    random = torch.Generator().manual_seed(seed)
    for p in parameters:
        p.grad = (scale * torch.randn(p.shape, generator=random)).to(p.device)


def clone_all(optimizer, parameters):
    states = [value for p in parameters for value in optimizer.state[p].values()]
    return [t.detach().clone() for t in (*parameters, *states)]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_non_finite_update_changes_neither_parameters_nor_state(name, options):
    optimizer, parameters = build(name, options)
    for seed in range(2):
        set_gradients(parameters, seed=seed)
        clip_and_step(optimizer, parameters, clip_norm=1.0)
    before = clone_all(optimizer, parameters)
    set_gradients(parameters, float("inf"))
    assert clip_and_step(optimizer, parameters, clip_norm=1.0).skipped
    after = clone_all(optimizer, parameters)
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_run_with_a_skipped_first_update_equals_one_without_it(name, options):
    results = []
    for skips in (True, False):
        optimizer, parameters = build(name, options)
        if skips:
            set_gradients(parameters, float("nan"))
            clip_and_step(optimizer, parameters, clip_norm=1.0)
        for seed in range(3):
            set_gradients(parameters, seed=seed)
            clip_and_step(optimizer, parameters, clip_norm=1.0)
        results.append(clone_all(optimizer, parameters))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_scaled_and_clipped_gradient_gives_the_update_of_the_unscaled_one(name, options):
    results = []
    for scale in (1.0, 64.0):
        optimizer, parameters = build(name, options)
        set_gradients(parameters, scale * 8)
        clip_and_step(optimizer, parameters, clip_norm=1.0, loss_scale=torch.tensor(scale))
        results.append([p.detach() for p in parameters])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gpu_update_equals_the_cpu_update(name, options):
    results = []
    for device in ("cpu", "cuda"):
        optimizer, parameters = build(name, options, device)
        for seed in range(3):
            set_gradients(parameters, seed=seed)
            clip_and_step(optimizer, parameters, clip_norm=1.0)
        results.append([p.detach().cpu() for p in parameters])
    tolerance = 2e-2 if name == "muon" else 1e-5  # its matrices are orthogonalized in bf16
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=tolerance, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_update_does_not_synchronize_with_the_gpu(name):
    optimizer, parameters = build(name, {}, "cuda")
    set_gradients(parameters)
    clip_and_step(optimizer, parameters, clip_norm=1.0)
    set_gradients(parameters)
    torch.cuda.set_sync_debug_mode("error")
    try:
        clip_and_step(optimizer, parameters, clip_norm=1.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ["lamb", "adafactor", "muon", "rmsprop"])
def test_a_step_that_is_restored_equals_one_that_is_skipped(name, monkeypatch):
    """On a GPU every step is taken, and restored if it must be skipped; the first one is."""
    ends = []
    for on_gpu in (False, True):
        torch.manual_seed(0)
        named = [
            (f"encoder.layers.0.{n}.weight", torch.nn.Parameter(torch.randn(4, n))) for n in (3, 5)
        ]
        named.append(("encoder.layers.0.bias", torch.nn.Parameter(torch.randn(6))))
        optimizer = OPTIMIZERS[name].factory(OPTIMIZERS[name].config, named)
        step = step_and_restore if on_gpu else step_unless_skipped
        for skipped in (1.0, 0.0, 0.0, 1.0, 0.0):
            for _, p in named:
                p.grad = torch.randn_like(p) * (torch.inf if skipped else 1)
            step(optimizer, [p for _, p in named], torch.tensor(2.0), torch.tensor(skipped))
        ends.append([p.detach() for _, p in named])
    torch.testing.assert_close(*ends)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_learning_rate_of_a_group_scales_its_update(name, options):
    optimizer, parameters = build(name, options)
    before = [p.detach().clone() for p in parameters]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    set_gradients(parameters)
    optimizer.step()
    assert all(torch.equal(old, p) for old, p in zip(before, parameters, strict=True))
