"""Draw the pictures of the documentation and of the examples from recorded results.

    python tools/example_plots.py [PICTURE...] [--into FOLDER] [--format png|pdf|svg]

PICTURE is a path in the repository, such as examples/taco/curve.png (default: all). Learning curves
are drawn from the examples' runs.jsonl, everything else from what toolkit-plot --json wrote.
"""

from __future__ import annotations

import argparse
import io
import json
import runpy
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from collect_runs import unpack
from recorded_plots import (
    TACO,
    attention,
    differences,
    draw_from_json,
    kernels,
    mean_attention,
    minimal_pairs,
    perturbation,
    tie_ranges,
)
from run_records import load_runs

from toolkit.cli.plot import main as plot

ROOT = Path(__file__).resolve().parents[1]
SAN = runpy.run_path(str(ROOT / "tools/tables/conv_san.py"))["NAMES"]
POSITIONS = runpy.run_path(str(ROOT / "tools/tables/positions.py"))
RTD = "--metric=mlm_loss,generator_accuracy,rtd_loss,discriminator_accuracy,auc"


def draw_from_runs(
    example: str, folders: Sequence[str], options: Sequence[str], file: Path
) -> None:
    """Learning curves, as drawn by toolkit-plot curve."""
    with tempfile.TemporaryDirectory() as records:
        unpack(load_runs(ROOT / "examples" / example / "runs.jsonl"), Path(records))
        found = [str(it) for folder in folders for it in sorted(Path(records).glob(folder))]
        with redirect_stdout(io.StringIO()):
            status = plot(["curve", *found, *options, "--output", str(file)])
    assert status == 0


def draw_minimal_pairs(folder: str, file: Path) -> None:
    """The accuracies in a folder's minimal_pairs.jsonl, a row for each variant."""
    with tempfile.TemporaryDirectory() as place:
        named = Path(place) / "results.jsonl"
        results = POSITIONS["read_results"](ROOT / folder)
        lines = [
            json.dumps({**result, "path": f"{variant},seed={seed}"}) + "\n"
            for variant, seeds in results.items()
            for seed, result in enumerate(seeds)
        ]
        named.write_text("".join(lines), "utf-8")
        with redirect_stdout(io.StringIO()):
            status = plot(["minimal-pairs", str(named), "--output", str(file)])
    assert status == 0


def draw_by_words(folder: str, file: Path) -> None:
    """The accuracies on the fast sets in a folder's entry.jsonl, by words seen."""
    rows = [json.loads(line) for line in (ROOT / folder / "entry.jsonl").open(encoding="utf-8")]
    rows = [it for it in rows if it["suite"].endswith("fast") and it["set"] != "reading"]
    for row in rows:
        path = f"{row['run']},seed={row['seed']}/checkpoint_e1_u{row['update']}"
        row |= {"path": path, "evaluation": "", "phenomena": [], "paradigms": []}
        row["overall"] = {"accuracy": row["score"]}
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "fast.jsonl"
        results.write_text("".join(json.dumps(it) + "\n" for it in rows), "utf-8")
        with redirect_stdout(io.StringIO()):
            options = ["--metric=accuracy", "--x-axis=words", "--size=9x2.6"]
            status = plot(["curve", str(results), *options, "--output", str(file)])
    assert status == 0


def labels(names: dict[str, str], prefix: str = "") -> list[str]:
    """The option --labels for the names of configurations."""
    return ["--labels", *(f"{prefix}{name}={label}" for name, label in names.items())]


def treebank(name: str) -> Callable[[Path], None]:
    """The plot of five models on a treebank."""
    models = {key: SAN[key] for key in ("add", "conv1d", "conv2d", "pr", "temp")}
    options = ["--metric=accuracy", *labels(models, "conv_san_ud_")]
    return partial(draw_from_runs, "conv_san", [f"ud/{name}/*"], options)


BERT = partial(draw_from_runs, "composite_bert", ["novels"])
TACO_RUNS = {name: TACO[name] for name in ("taco_192", "taco_192_summed", "bert_192")}
POSITION_CURVES = ("none", "learned", "sinusoidal", "alibi", "rope", "composite", "deberta")
RECORDED = "examples/composite_bert/pictures"
PICTURES: dict[str, Callable[[Path], None]] = {
    "docs/images/curve.png": partial(BERT, ["--metric=loss,accuracy"]),
    "docs/images/kernels.png": partial(draw_from_json, f"{RECORDED}/kernels.jsonl.xz", kernels),
    "docs/images/channels.png": partial(draw_from_json, f"{RECORDED}/channels.jsonl.xz", kernels),
    "docs/images/attention.png": partial(
        draw_from_json, f"{RECORDED}/attention.jsonl.xz", attention
    ),
    "docs/images/mean_attention.png": partial(
        draw_from_json, f"{RECORDED}/mean_attention.jsonl.xz", mean_attention
    ),
    "docs/images/minimal-pairs.png": partial(
        draw_from_json, f"{RECORDED}/minimal_pairs.jsonl.xz", minimal_pairs
    ),
    "examples/babylm/differences.png": partial(differences, ROOT / "examples/babylm"),
    "examples/babylm/words.png": partial(draw_by_words, "examples/babylm"),
    "examples/composite_bert/curve.png": partial(BERT, ["--metric=loss"]),
    "examples/conv_san/english-lines.png": treebank("English-LinES"),
    "examples/conv_san/french-spoken.png": treebank("French-Spoken"),
    "examples/conv_san/penn.png": partial(
        draw_from_runs, "conv_san", ["penn/*"], ["--metric=accuracy", *labels(SAN, "conv_san_")]
    ),
    "examples/convbert/types.png": partial(draw_from_runs, "convbert", ["types"], [RTD]),
    "examples/convbert/kernels.png": partial(
        draw_from_runs, "convbert", ["kernels", "types/*conv_type=span,seed=[01]"], [RTD]
    ),
    "examples/positions/curve.png": partial(
        draw_from_runs,
        "positions",
        [f"*order_{name},*" for name in POSITION_CURVES],
        ["--metric=loss"],
    ),
    "examples/positions/minimal_pairs.png": partial(draw_minimal_pairs, "examples/positions"),
    "examples/taco/curve.png": partial(
        draw_from_runs,
        "taco",
        ["both"],
        ["--metric=mlm_loss,mpm_loss,mpm_accuracy", *labels(TACO_RUNS)],
    ),
    "examples/taco/perturbation.png": partial(
        draw_from_json, "examples/taco/perturbation.jsonl", perturbation
    ),
    "examples/ties/ties.png": partial(tie_ranges, ROOT / "examples/ties"),
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help="default: all")
    parser.add_argument("--into", type=Path, default=ROOT, help="default: the repository")
    parser.add_argument("--format", choices=("png", "pdf", "svg"), default="png")
    args = parser.parse_args(argv)
    if unknown := set(args.pictures) - set(PICTURES):
        parser.error(f"no such picture: {', '.join(unknown)}. Pictures: {', '.join(PICTURES)}")
    for picture in args.pictures or PICTURES:
        file = (args.into / picture).with_suffix(f".{args.format}")
        file.parent.mkdir(parents=True, exist_ok=True)
        PICTURES[picture](file)
        print(file)


if __name__ == "__main__":
    main()
