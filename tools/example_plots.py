"""Draw the pictures of the documentation and of the examples from recorded results.

    python tools/example_plots.py [PICTURE...] [--into FOLDER] [--format png|pdf|svg]

PICTURE is a path in the repository, such as examples/taco/curve.png (default: all). Learning curves
are drawn from the examples' runs.jsonl, everything else from what toolkit-plot --json wrote.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from collect_runs import unpack
from run_records import load_runs, read_lines

from toolkit.analysis.kernel_table import KernelRows
from toolkit.analysis.kernels import kernels_to_draw
from toolkit.analysis.plots.attention import HeadMap, MeanMap, draw_maps, draw_mean_maps
from toolkit.analysis.plots.kernels import draw_kernels
from toolkit.analysis.plots.perturbation import VectorDifference, draw_differences
from toolkit.analysis.plots.style import Figure, plot_style, save_plot
from toolkit.cli.plot import main as plot
from toolkit.config.commands.plot import KernelsConfig
from toolkit.data.tokenizers.vocabulary import Vocabulary

ROOT = Path(__file__).resolve().parents[1]
SAN = {
    "none": "none",
    "concat": "PE[con]",
    "add": "PE[add]",
    "p": "P",
    "r": "R",
    "pr": "P+R",
    "temp": "PE[add] + Temp",
    "conv1d": "PE[add] + Conv",
    "conv2d": "PE[add] + Conv2d",
}
TACO = {
    "taco_192": "TACO",
    "taco_192_summed": "TACO without its convolution",
    "taco_192_words": "TACO, masked words only",
    "bert_192": "BERT",
}
RTD = "--metric=mlm_loss,generator_accuracy,rtd_loss,discriminator_accuracy,auc"
Events = Sequence[dict[str, Any]]


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


def draw_from_json(source: str, draw: Callable[[Events], Figure], file: Path) -> None:
    """Any other plot, from the events that toolkit-plot --json wrote."""
    c = KernelsConfig(path=["recorded"], output=str(file))  # its options for style
    with plot_style(c):
        save_plot(draw(read_lines(ROOT / source)), c)


def kernels(events: Events) -> Figure:
    rows = [
        KernelRows(it["layer"], it["kernel"], it["by"], it["offsets"], it["mean"], it["deviation"])
        for it in events
    ]
    return draw_kernels({"": kernels_to_draw(rows, KernelsConfig(path=["recorded"]))}, "")


def attention(events: Events) -> Figure:
    [sentence] = [it for it in events if it["event"] == "sentence"]
    return draw_maps(read_maps(events), display(sentence["tokens"]), SENTENCES["attention"])


def mean_attention(events: Events) -> Figure:
    tokens = [display(it["tokens"]) for it in events if it["event"] == "sentence"]
    means = [it for it in events if it["event"] == "concentration" and it["layer"] is None]
    maps = [
        MeanMap(Path(it["checkpoint"]).name, row, head_map.weights, it["mean"])
        for it, row, head_map in zip(means, tokens, read_maps(events), strict=True)
    ]
    return draw_mean_maps(maps, SENTENCES["mean_attention"])


def read_maps(events: Events) -> list[HeadMap]:
    return [
        HeadMap(it["layer"], it["head"], it["weights"]) for it in events if it["event"] == "map"
    ]


def display(symbols: Sequence[str]) -> list[str]:
    vocabulary = Vocabulary(symbols, pad=0, cls=0, sep=0, mask=0, unk=0)
    return [vocabulary.display_symbol(symbol) for symbol in symbols]


def perturbation(events: Events) -> Figure:
    differences = [
        VectorDifference(
            TACO[Path(it["checkpoint"]).name],
            (it["sentences"][0], it["sentences"][1]),
            it["word"],
            it["distance"],
            it["angle"],
        )
        for it in events
    ]
    return draw_differences(differences, "")


def labels(names: dict[str, str], prefix: str = "") -> list[str]:
    return ["--labels", *(f"{prefix}{name}={label}" for name, label in names.items())]


def treebank(name: str) -> Callable[[Path], None]:
    models = {key: SAN[key] for key in ("add", "conv1d", "conv2d", "pr", "temp")}
    options = ["--metric=accuracy", *labels(models, "conv_san_ud_")]
    return partial(draw_from_runs, "conv_san", [f"ud/{name}/*"], options)


SENTENCES = {
    "attention": "The old man opened the [MASK] and looked out into the night.",
    "mean_attention": "He said the foodservice pie business doesn't fit the company's "
    "long-term growth strategy.",
}
BERT = partial(draw_from_runs, "composite_bert", ["novels"])
TACO_RUNS = {name: TACO[name] for name in ("taco_192", "taco_192_summed", "bert_192")}
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
    "examples/taco/curve.png": partial(
        draw_from_runs,
        "taco",
        ["both"],
        ["--metric=mlm_loss,mpm_loss,mpm_accuracy", *labels(TACO_RUNS)],
    ),
    "examples/taco/perturbation.png": partial(
        draw_from_json, "examples/taco/perturbation.jsonl", perturbation
    ),
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
        PICTURES[picture](file)
        print(file)


if __name__ == "__main__":
    main()
