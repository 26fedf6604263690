"""Batches and updates of pre-training that several benchmarks time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from harness import Record, Update, machine, parser, publish, race, table
from torch.utils.flop_counter import FlopCounterMode

RATE = 0.15
"""Fraction of the tokens that are predicted."""
PRODUCT_SIZE = 2048
PRODUCT_FLOPS = 2 * PRODUCT_SIZE**3
"""Operations of `large_product`."""


def large_product(precision: str) -> Update:
    """One large product, whose operations per second are the machine's best."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(PRODUCT_SIZE, PRODUCT_SIZE).to(dtype) for _ in range(2))
    return lambda: a @ b


def count_flops(update: Update) -> int:
    """Operations of an update's products."""
    with FlopCounterMode(display=False) as counter:
        update()
    return int(counter.get_total_flops())


def masked_batch(words: int, length: int, tokens: int, device: str = "cpu") -> Any:
    """A batch of random tokens for the task mlm."""
    from toolkit.models.interface import Inputs
    from toolkit.tasks.examples import TargetBatch

    ids, selected = random_tokens(words, length, tokens)
    ids, selected = ids.to(device), selected.to(device)
    weights = {"mlm": float(len(selected))}
    targets = ids.flatten()[selected]
    return TargetBatch(Inputs(ids), selected, targets, weights, len(ids), ids.numel())


def random_tokens(words: int, length: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids, and the selected positions as flat indices."""
    torch.manual_seed(0)
    ids = torch.randint(5, words - 4, (max(1, tokens // length), length))
    return ids, (torch.rand(ids.numel()) < RATE).nonzero().flatten()


def make_trainer(
    learner: Any,
    precision: str,
    *,
    optimizer: str = "adamw",
    options: Mapping[str, float] | None = None,
    lr_scheduler: str = "linear",
    clip_norm: float = 0.0,
    device: str = "cpu",
    training: Mapping[str, Any] | None = None,
) -> Any:
    """The trainer of toolkit-train, in a process with toolkit-train's memory settings.

    `training` are options of that section which change the learner, such as `compile`, or
    `cuda_graph`, which raises an error where there can be no graphs.
    """
    from dataclasses import replace

    from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
    from toolkit.common.system import keep_freed_memory
    from toolkit.config.sections import TrainingConfig
    from toolkit.distributed import World
    from toolkit.optim.update import Precision
    from toolkit.training.setup import parallelize
    from toolkit.training.trainer import Trainer

    keep_freed_memory()
    torch_device = torch.device(device)
    world = World(device=torch_device)
    learner.to(torch_device)
    parallelize(learner, world, TrainingConfig(**(training or {})), precision)
    criterion, entry = CRITERIA["cross_entropy"], OPTIMIZERS[optimizer]
    schedule = LR_SCHEDULERS[lr_scheduler]
    trainer = Trainer(
        learner,
        criterion.factory(criterion.config),
        entry.factory(replace(entry.config, **(options or {})), list(learner.named_parameters())),
        schedule.factory(schedule.config, 1000),
        world=world,
        precision=Precision.for_training(precision, TrainingConfig(**(training or {})), world),
        clip_norm=clip_norm,
    )
    if "cuda_graph" in (training or {}):
        from toolkit.training.cuda_graphs import enable_cuda_graphs

        enable_cuda_graphs(trainer, TrainingConfig(**(training or {})), fail)
    return trainer


def fail(message: str) -> None:
    raise RuntimeError(message)


def toolkit_update(
    learner: Any, batch: Any, precision: str, *, copies: int = 1, device: str = "cpu"
) -> Update:
    """The trainer's `step` on copies of a micro-batch: AdamW, clipping at 1."""
    trainer = make_trainer(learner, precision, clip_norm=1.0, device=device)
    return lambda: trainer.step([batch] * copies, 1000)


def transformers_update(
    model: Any, words: int, length: int, tokens: int, precision: str, device: str = "cpu"
) -> Update:
    """The update of `transformers.Trainer.train`, with logits of all positions."""
    optimizer = torch.optim.AdamW(model.to(device).train().parameters(), lr=5e-5, fused=True)
    ids, selected = (t.to(device) for t in random_tokens(words, length, tokens))
    labels = torch.full_like(ids, -100)
    labels.view(-1)[selected] = ids.view(-1)[selected]
    mask = torch.ones_like(ids)

    def update() -> None:
        half = precision == "bf16"
        with torch.autocast(device, torch.bfloat16) if half else nullcontext():
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return update


def update_table(records: Mapping[str, Record], title: str, reference: str, tokens: int) -> str:
    """Milliseconds of an update, and their ratio to those of the reference."""
    head = [title, "median ms", "fastest ms", "tokens/s", f"times {reference}", "peak memory MiB"]
    rows = [
        [
            name,
            f"{1e3 * record.median:.0f}",
            f"{1e3 * min(record.seconds):.0f}",
            f"{tokens / record.median:,.0f}",
            f"{record.median / records[reference].median:.2f}",
            f"{record.peak_mib:,.0f}",
        ]
        for name, record in records.items()
    ]
    return table(head, rows)


def compare(
    name: str,
    title: str,
    description: str,
    contestants: Callable[[int, int], Mapping[str, Any]],
    reference: str,
) -> None:
    """The command of a benchmark that times one update of each contestant."""
    options = parser(description, rounds=5)
    options.add_argument("--length", type=int, default=128, help="tokens per sentence")
    options.add_argument("--tokens", type=int, default=4096, help="tokens per batch")
    args = options.parse_args()
    records = race(contestants(args.length, args.tokens), args.rounds)
    results = update_table(records, f"update at T={args.length}", reference, args.tokens)
    text = f"{machine()}; {args.tokens:,} tokens per batch\n\n{results}\n"
    publish(text, args.report, title, description, f"-{args.length}")
