from dataclasses import replace

import pytest
import torch
from torch.distributed.tensor import DTensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import OPTIMIZERS
from toolkit.distributed.data_parallel import apply_fsdp, local_rows, shard_like, to_full
from toolkit.optim.foreach import ForeachOptimizer
from toolkit.optim.parameter_groups import OptimizerConfig
from toolkit.optim.update import clip_and_step
from toolkit.tasks.build import build_model


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
