"""What must be known about a GPU, in eight minutes: correctness, speed, memory, reproducibility.

    python benchmarks/gpu.py [--plan quick] [--sections env,speed] [--output DIR] [--report]

(`pip install transformers` adds Hugging Face's models; without it their rows are failures.)

Updates are the trainer's `step` in bf16, on one batch in pinned memory of the host: 15 % of the
tokens predicted, dropout 0.1, clipping at 1, AdamW. Those of Transformers are what
`transformers.Trainer` does between two batches, with logits of all positions and token ids that
stay on the GPU. Kernels are timed as CUDA graphs, without the time to launch them. The programs of
a group alternate in one process; ms are medians of rounds of several updates, which end when the
GPU has finished. "Host ms" is the time until an update has been launched. Peak memory is what the
program's own tensors take. "Speed / first" compares tokens per second with those of the group's
first program; `mpm` encodes each sentence twice, and both count.
"Share of the best product" is the rate of a program's products and convolutions, divided by that of
a large square bf16 product that alternates with the group; MFU divides by the data sheet's rate.
Operations of Triton kernels are counted as the products they compute.

A section that fails or runs out of time does not end the others, and every row is written at once.
`--device cpu --smoke` runs everything on tiny shapes; its numbers mean nothing.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentTypeError, Namespace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness import REPORTS, parser

if TYPE_CHECKING:  # what is imported here would import Triton, before `prepare` can set it up
    from gpu_sections.context import Context
    from gpu_sections.report import Report


class Section(NamedTuple):
    module: str
    """In `gpu_sections`; its function `run` yields rows."""
    title: str
    share: float
    """Of the time, relative to the sections that are still to come."""


SECTIONS = {
    "env": Section("environment", "Environment", 0.5),
    "products": Section("products", "Matrix products and copying", 3),
    "kernels": Section("kernels", "Triton kernels against their plain forms", 4),
    "speed": Section("speed", "Speed of updates", 70),
    "profile": Section("profiles", "Kernels that take the most time", 12),
    "determinism": Section("determinism", "The same training twice", 7),
    "attention": Section("attention", "Attention backends", 3),
    "shapes": Section("new_shapes", "Depthwise convolutions of new lengths", 1),
}


class Plan(NamedTuple):
    """What runs within four minutes, the most wanted first."""

    sections: tuple[str, ...]
    groups: int | None = None
    """Of the section `speed`, from the first."""
    minutes: float = 3.5
    """One program may begin just before they are over."""


PLANS = {
    "all": Plan(tuple(SECTIONS), minutes=8),
    "quick": Plan(("env", "speed"), groups=2),
    "speed": Plan(("speed",)),
    "profile": Plan(("profile", "kernels", "products")),
    "determinism": Plan(("determinism", "attention", "shapes")),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--plan", choices=PLANS, default="all", help="sections and their time")
    options.add_argument("--sections", type=split, help="comma-separated, in place of the plan's")
    options.add_argument("--minutes", type=float, help="in place of the plan's")
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options.add_argument("--smoke", action="store_true", help="tiny shapes, everything once")
    options.add_argument("--output", type=Path, help="folder of the JSON and Markdown report")
    args = options.parse_args()
    plan = PLANS[args.plan]
    end = time.perf_counter() + 60 * (args.minutes or plan.minutes)
    ctx, sections = prepare(args, plan), args.sections or plan.sections
    from gpu_sections.report import make_report

    folder = args.output or (REPORTS if args.report else None)
    report = make_report(folder, ctx, __doc__)
    for number, name in enumerate(sections):
        later = sum(SECTIONS[other].share for other in sections[number:])
        now = time.perf_counter()
        ctx.deadline = now + max(0.0, end - now) * SECTIONS[name].share / later
        run_section(name, ctx, report)
    print(f"\n{report.markdown()}")


def split(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - SECTIONS.keys():
        raise ArgumentTypeError(f"no such section: {', '.join(sorted(unknown))}")
    return names


def prepare(args: Namespace, plan: Plan) -> Context:
    """The device as toolkit-train sets it up; programs of all shapes share one process's memory."""
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    if args.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported
    from gpu_sections.context import Context

    from toolkit.distributed.world import configure_backend, select_device

    device = select_device(args.device)
    configure_backend(device)
    return Context(device, args.smoke, groups=plan.groups)


def run_section(name: str, ctx: Context, report: Report) -> None:
    """Its rows as they come; an error ends the section only."""
    from gpu_sections.context import describe_error

    report.begin(name, SECTIONS[name].title)
    start, error = time.perf_counter(), None
    try:
        for row in import_module(f"gpu_sections.{SECTIONS[name].module}").run(ctx):
            report.add(name, row)
        ctx.release()
    except Exception as failure:
        error = describe_error(failure)
    report.end(name, time.perf_counter() - start, error)


if __name__ == "__main__":
    main()
