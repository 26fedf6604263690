"""ConvBERT by kind of convolution and by kernel size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from run_records import Run, group, select_experiment
from table_cells import Rows, mean, spread

KINDS = ("none", "conventional", "dynamic", "span")
METRICS = ["generator: loss", "generator: accuracy (%)", "discriminator: loss", "AUC"]


def cells(runs: list[Run]) -> list[str]:
    values = {
        name: [run.last(name) for run in runs]
        for name in ("mlm_loss", "generator_accuracy", "rtd_loss", "auc")
    }
    return [
        str(len(runs)),
        spread(values["mlm_loss"], 3),
        mean(values["generator_accuracy"], 1, 100),
        spread(values["rtd_loss"], 3),
        spread(values["auc"], 3),
    ]


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    types = group(
        select_experiment(runs, "types"), lambda run: run.record["config"]["arch.conv_type"]
    )
    rows = [[kind, *cells(types[kind])] for kind in KINDS if kind in types]
    yield "types", [["convolution", "seeds", *METRICS], *rows]
    sizes = select_experiment(runs, "kernels")
    kernels = group(sizes, lambda run: run.record["config"]["arch.kernel_size"])
    seeds = {run.record["seed"] for run in sizes}
    kernels[9] = [run for run in types.get("span", []) if run.record["seed"] in seeds]
    rows = [[str(size), *cells(kernels[size])] for size in sorted(kernels) if kernels[size]]
    yield "kernels", [["kernel size", "seeds", *METRICS], *rows]
