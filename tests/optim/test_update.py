"""An update: precision, clipping, foreach."""

from dataclasses import replace

import pytest
import torch
from torch.distributed.tensor import DTensor

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import OPTIMIZERS
from toolkit.distributed.data_parallel import apply_fsdp, local_rows, shard_like, to_full
from toolkit.optim.foreach import ForeachOptimizer
from toolkit.optim.parameter_groups import OptimizerConfig
from toolkit.optim.update import (
    LossScale,
    Precision,
    clip_and_step,
    resolve_precision,
)


def case(fused, gradient):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    p.grad = torch.tensor(gradient)
    return p, torch.optim.SGD([p], lr=1.0, fused=fused)


@pytest.mark.parametrize("fused", [True, False])
def test_short_gradient_is_not_clipped(fused):
    p, sgd = case(fused, [0.3, 0.4])
    outcome = clip_and_step(sgd, [p], clip_norm=1.0)
    assert [float(x) for x in outcome] == pytest.approx([0.5, 0, 0])
    torch.testing.assert_close(p.detach(), torch.tensor([0.7, 1.6]))


@pytest.mark.parametrize("fused", [True, False])
def test_skipped_update_changes_nothing_and_reports_its_norm(fused):
    p, sgd = case(fused, [0.3, 0.4])
    norms = []

    def skip(norm):
        norms.append(float(norm))
        return torch.tensor(1.0)

    outcome = clip_and_step(sgd, [p], clip_norm=1.0, should_skip=skip)
    assert [float(x) for x in outcome] == pytest.approx([0.5, 0, 1])
    assert norms == pytest.approx([0.5]) and p.tolist() == [1.0, 2.0]


class FusedNoOp(torch.optim.Optimizer):
    """Does nothing, on any device."""

    def __init__(self, parameters):
        super().__init__(parameters, {"fused": True})

    def step(self):
        pass


def test_norm_of_no_gradients_is_on_the_device_of_the_parameters():
    p = torch.nn.Parameter(torch.empty(2, device="meta"))
    outcome = clip_and_step(FusedNoOp([p]), [p], clip_norm=1.0)
    assert {value.device.type for value in outcome} == {"meta"}


CPU = torch.device("cpu")


def test_auto_precision_is_bf16_on_hardware_that_multiplies_it(monkeypatch):
    for fast, expected in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr("toolkit.optim.update.bf16_is_fast", lambda device, f=fast: f)
        assert resolve_precision("auto", CPU) == expected


@pytest.mark.parametrize("kind", ["cpu", "mps", "xpu"])
def test_tf32_is_rejected_without_an_nvidia_gpu(kind):
    with pytest.raises(ToolkitError, match=f"fp32 on {kind}, but is tf32"):
        resolve_precision("tf32", torch.device(kind))
    assert resolve_precision("tf32", torch.device("cuda")) == "tf32"


def test_autocast_computes_products_in_the_requested_format():
    layer, x = torch.nn.Linear(3, 3), torch.ones(1, 3)
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with Precision(name, CPU).autocast():
            assert layer(x).dtype == dtype


class SharedMaps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.frozen, self.unused = (torch.nn.Linear(8, 8) for _ in range(3))
        self.shared, self.tied = self.first, torch.nn.Linear(8, 8)
        self.tied.weight = self.first.weight
        self.frozen.requires_grad_(False)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            x = torch.nn.LayerNorm(8)(x)
        return self.tied(self.shared(self.frozen(self.first(x)).tanh())).float().square().sum()


def test_weights_converted_together_give_the_gradients_of_autocast():
    x, found = torch.randn(5, 8), []
    for together in (False, True):
        module, precision = SharedMaps(), Precision("bf16", CPU, casts_together=together)
        with precision.autocast():
            loss = precision.call(module, x)
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in module.parameters())])
    for expected, value in zip(*found, strict=True):
        assert (expected is None) == (value is None)
        assert expected is None or (torch.equal(expected, value) and value.dtype == torch.float32)


def test_loss_scale_halves_on_a_skip_and_doubles_after_an_interval():
    scale = LossScale(CPU, start=8.0, interval=3)
    states = []
    for skipped in (0, 0, 1, 0, 0, 0, 0):
        scale.update(torch.tensor(float(skipped)))
        states.append((float(scale.scale), float(scale.good)))
    assert states == [(8, 1), (8, 2), (4, 0), (4, 1), (4, 2), (8, 0), (8, 1)]


def test_loss_scale_state_is_restored():
    scale, again = LossScale(CPU, interval=3), LossScale(CPU, interval=3)
    scale.update(torch.tensor(1.0))
    scale.update(torch.tensor(0.0))
    again.restore(scale.state())
    assert again.state() == scale.state() == {"scale": 2.0**14, "good": 1.0}


def test_fp16_is_rejected_on_a_cpu():
    with pytest.raises(ToolkitError, match="must be auto, bf16 or fp32 on a CPU, but is fp16"):
        resolve_precision("fp16", CPU)


class Recorder(ForeachOptimizer):
    """Records which parameters are updated together."""

    def __init__(self, groups):
        super().__init__(OptimizerConfig(lr=1.0), groups)
        self.batches = []

    def batch_key(self, p):
        return p.dim()

    def init_state(self, p):
        return {"sum": torch.zeros_like(p)}

    def update_batch(self, group, batch):
        torch._foreach_add_(batch.state("sum"), batch.g)
        shapes = [tuple(p.shape) for p in batch.p]
        self.batches.append((group["name"], shapes, [float(it) for it in batch.state("step")]))


def parameter(*shape):
    p = torch.nn.Parameter(torch.zeros(shape))
    p.grad = torch.ones(shape)
    return p


def test_foreach_optimizer_updates_parameters_of_one_group_and_kind_together():
    optimizer = Recorder(
        [
            {"params": [parameter(2), parameter(2, 3), parameter(4)], "name": "a"},
            {"params": [parameter(5)], "name": "b"},
        ]
    )
    optimizer.step()
    assert optimizer.batches == [
        ("a", [(2,), (4,)], [1, 1]), ("a", [(2, 3)], [1]), ("b", [(5,)], [1])
    ]  # fmt: skip


def test_foreach_optimizer_counts_updates_per_parameter_and_skips_missing_gradients():
    early, late = parameter(2), parameter(2)
    late.grad = None
    optimizer = Recorder([{"params": [early, late], "name": "a"}])
    optimizer.step()
    assert optimizer.state[late] == {}
    late.grad = torch.ones(2)
    optimizer.step()
    assert optimizer.batches[-1] == ("a", [(2,), (2,)], [2, 1])
    assert float(optimizer.state[early]["sum"][0]) == 2


def after_three_updates(name, options, world=None):
    """Weights of a learner after three updates, sharded if `world` is given."""
    torch.manual_seed(0)
    size = {"layers": 1, "width": 16, "heads": 2, "embedding_width": 8}
    learner = build_model("composite_bert_tiny", vocabulary_size=11, task="mlm", **size)
    if world:
        apply_fsdp(learner, list(learner.encoder.layers), world)
    config = replace(OPTIMIZERS[name].config, lr=0.01, **options)
    optimizer = OPTIMIZERS[name].factory(config, list(learner.named_parameters()))
    parameters = list(learner.parameters())
    for number in range(3):
        random = torch.Generator().manual_seed(number)
        for p in parameters:
            p.grad = shard_like(p, torch.randn(p.shape, generator=random)[local_rows(p)].clone())
        clip_and_step(optimizer, parameters, clip_norm=1.0)
    assert world is None or all(isinstance(p, DTensor) for p in parameters)
    return [to_full(p.detach()).tolist() for p in parameters]


@pytest.mark.slow
def test_sharded_update_equals_the_unsharded_one(ranks):
    variants = [("sgd", {"momentum": 0.9}), ("adamw", {"bias_correction": False})]
    variants += [(name, {}) for name in ("adam", "lamb", "muon", "rmsprop")]

    def train(world):
        with pytest.raises(
            ToolkitError, match=r"adafactor cannot be combined with training.sharding full"
        ):
            after_three_updates("adafactor", {}, world)
        return [after_three_updates(*variant, world) for variant in variants]

    for sharded in ranks(train):
        for (name, options), weights in zip(variants, sharded, strict=True):
            for one, other in zip(weights, after_three_updates(name, options), strict=True):
                torch.testing.assert_close(
                    torch.tensor(one), torch.tensor(other), atol=1e-6, rtol=0, msg=name
                )
