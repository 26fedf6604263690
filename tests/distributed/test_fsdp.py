"""Sharded training compared with DDP and one process; sharded tensors with full ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from toolkit import build_model
from toolkit.criteria import Criterion
from toolkit.distributed import World, no_sync
from toolkit.distributed.data_parallel import (
    apply_fsdp,
    local_rows,
    shard_like,
    to_full,
    to_local,
    total_norm,
)
from toolkit.models.interface import Inputs
from toolkit.optim.update import Precision
from toolkit.tasks.examples import TargetBatch
from toolkit.training.callbacks.logging import update_flops
from toolkit.training.callbacks.non_finite import diagnose_non_finite
from toolkit.training.trainer import Trainer


@pytest.fixture(scope="module", autouse=True)
def sharding():
    """What forked ranks would otherwise import anew."""
    import torch.distributed.fsdp
    import torch.distributed.tensor  # noqa: F401


def micro_batches(count=6):
    """Micro-batches of unequal size and weight, with padding."""
    random = torch.Generator().manual_seed(3)
    found = []
    for sentences, length in [(3, 9), (2, 12), (4, 6), (1, 5), (2, 9), (3, 7)][:count]:
        tokens = torch.randint(5, 50, (sentences, length), generator=random)
        padding = torch.zeros(sentences, length, dtype=torch.bool)
        padding[-1, length - 2 :] = True
        places = torch.arange(1, sentences * length - 2, 4)
        weights = {"mlm": float(len(places))}
        found.append(
            TargetBatch(
                Inputs(tokens, padding=padding),
                places,
                tokens.flatten()[places],
                weights,
                sentences,
                sentences * length,
            )
        )
    return found


class Summed(Criterion):
    def forward(self, predictions):
        return {
            name: nn.functional.cross_entropy(p.logits.float(), p.targets, reduction="sum")
            for name, p in predictions.items()
        }


def make_trainer(world, sharding, arch, precision="fp32"):
    torch.manual_seed(1)
    learner = build_model(arch, vocabulary_size=50, task="mlm", width=32, heads=2)
    if sharding:
        compute = {"bf16": torch.bfloat16}.get(precision)
        apply_fsdp(learner, learner.encoder.layers, world, compute)
    return Trainer(
        learner,
        Summed(),
        torch.optim.AdamW(learner.parameters(), lr=0.01, eps=1e-3, fused=True),
        lambda n: 1.0,
        world=world,
        precision=Precision(precision, torch.device("cpu")),
        clip_norm=1.0,
    )


def trained(world, sharding, arch, *, updates=4, precision="fp32"):
    """All parameters after some updates of six micro-batches, dropout on; and the norms."""
    trainer = make_trainer(world, sharding, arch, precision)
    mine = micro_batches()[world.rank :: world.size]
    outcomes = [trainer.step(mine, 6 * updates).outcome for _ in range(updates)]
    parameters = torch.cat([to_full(p.detach()).flatten() for p in trainer.learner.parameters()])
    return parameters, [float(outcome.norm) for outcome in outcomes]


@pytest.mark.slow
def test_fsdp_equals_ddp_and_one_process(ranks, arch="composite_bert_tiny"):
    def both(world):
        (sharded, norms), (ddp, _) = (trained(world, sharding, arch) for sharding in (True, False))
        return sharded.tolist(), ddp.tolist(), norms

    alone, wanted = trained(World(), False, arch)
    for sharded, ddp, norms in ranks(both):
        torch.testing.assert_close(torch.tensor(sharded), alone, atol=1e-6, rtol=0)
        torch.testing.assert_close(torch.tensor(sharded), torch.tensor(ddp), atol=1e-6, rtol=0)
        assert norms == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_only_the_last_micro_batch_exchanges_gradients(ranks):
    def gradients(world):
        learner = nn.Sequential(nn.Linear(2, 3))
        nn.init.zeros_(learner[0].weight)
        apply_fsdp(learner, learner, world)
        with no_sync(learner):
            learner(torch.ones(1, 2)).sum().backward()
        before = [p.grad for p in learner.parameters()]
        learner(torch.full((1, 2), 2.0 + 2 * world.rank)).sum().backward()
        return before, to_full(learner[0].weight.grad).tolist()

    assert ranks(gradients) == [([None, None], [[4.0, 4.0]] * 3)] * 2  # 1 + (2 + 4) / 2


@pytest.mark.slow
def test_fsdp_in_bf16_gathers_bf16_and_equals_ddp(ranks):
    def both(world):
        options = {"arch": "composite_bert_tiny", "precision": "bf16", "updates": 2}
        return [trained(world, sharding, **options)[1] for sharding in (True, False)]

    for sharded, ddp in ranks(both):
        assert sharded == pytest.approx(ddp, rel=0.02)


@pytest.mark.slow
def test_non_finite_loss_on_one_rank_skips_the_update_on_both(ranks):
    def step(world):
        trainer = make_trainer(world, True, "bert_tiny")
        learner, sums = trainer.learner, trainer.criterion.forward
        if world.rank == 1:
            trainer.criterion.forward = lambda p: {k: v + torch.inf for k, v in sums(p).items()}
        before = [to_local(p.detach()).clone() for p in learner.parameters()]
        skipped = float(trainer.step([micro_batches()[world.rank]], 2).outcome.skipped)
        return skipped, all(map(torch.equal, before, map(to_local, learner.parameters())))

    assert ranks(step) == [(1.0, True)] * 2


class Tied(nn.Module):
    """Two layers that share a matrix, and tables of fewer rows than ranks."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)])
        self.layers[1].weight = self.layers[0].weight
        self.one_row, self.three_rows = nn.Parameter(torch.ones(1, 2)), nn.Embedding(3, 3)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x @ self.three_rows.weight.T * self.one_row.sum()


def test_rows_are_sharded_and_gathered_for_any_number_of_rows(ranks):
    def there_and_back(world):
        torch.manual_seed(0)
        learner = Tied()
        tables = {name: p.detach().clone() for name, p in learner.named_parameters()}
        apply_fsdp(learner, learner.layers, world)
        grouped = [isinstance(it, torch.distributed.fsdp.FSDPModule) for it in learner.layers]
        rows = {name: tables[name][local_rows(p)] for name, p in learner.named_parameters()}
        found = [
            torch.equal(to_local(p), rows[name])
            and torch.equal(to_full(shard_like(p, rows[name])), tables[name])
            for name, p in learner.named_parameters()
        ]
        with torch.no_grad():
            learner(torch.ones(2, 3))
        kept = all(isinstance(p, torch.distributed.tensor.DTensor) for p in learner.parameters())
        learner(torch.ones(2, 3)).sum().backward()
        return grouped, found, kept

    # layers that share parameters are gathered with the rest, and rows stay sharded after a pass
    assert ranks(there_and_back, 3) == [([False, False, True], [True] * 7, True)] * 3


@pytest.mark.slow
def test_total_norm_is_that_of_all_rows_even_if_squares_overflow_fp32(ranks):
    def norms(world):
        learner = nn.Linear(2, 3)
        nn.init.constant_(learner.weight, 8e18)
        apply_fsdp(learner, [], world)
        return float(total_norm([learner.weight]))

    assert ranks(norms) == pytest.approx([6**0.5 * 8e18] * 2)


@pytest.mark.slow
def test_diagnosis_names_the_non_finite_value_on_both_ranks(ranks):
    def diagnose(world):
        found = []
        for at in ("parameter", "forward", "backward"):
            trainer = make_trainer(world, True, "bert_tiny")
            output = trainer.learner.encoder.layers[1].attention.output
            if world.rank == 1 and at == "parameter":
                to_local(output.weight.detach()).fill_(torch.nan)
            if world.rank == 1 and at == "forward":
                output.register_forward_hook(lambda module, inputs, outputs: outputs / 0)
            if world.rank == 1 and at == "backward":
                output.register_forward_hook(lambda module, given, out: Overflow.apply(out))
            batches = micro_batches()[:2]
            found.append(diagnose_non_finite(trainer.accumulator, batches, {"mlm": 10.0}))
        return found

    first, second = ranks(diagnose)
    assert first == second
    assert all("encoder.layers.1." in found and "rank 1" in found for found in first)


@pytest.mark.slow
def test_flops_of_sharded_layers_are_counted(ranks):
    def counted(world):
        learner = make_trainer(world, world.size > 1, "bert_tiny").learner
        return update_flops(learner, micro_batches()[0], torch.device("cpu"))

    assert ranks(counted) == [counted(World())] * 2


class Overflow(torch.autograd.Function):
    """The identity, whose gradient is infinite."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.inf
