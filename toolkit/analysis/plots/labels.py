"""Metrics, splits and variants in words, for axes and legends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from toolkit.common.errors import ToolkitError

SUBSETS = {"train": "training", "valid": "validation"}
LOSSES = ("loss", "nll")  # in nats
FRACTIONS = ("accuracy", "precision", "recall", "f1", "rate", "uas", "las", "mfu")  # drawn in %
ACRONYMS = {"auc": "AUC", "bleu": "BLEU", "chrf": "chrF", "f1": "F1", "nll": "NLL", "mfu": "MFU"}
WORDS = {"ppl": "perplexity", "lr": "learning rate", "nll": "negative log-likelihood", **ACRONYMS}
RATES = {
    "tokens_per_second": "tokens per second",
    "updates_per_second": "updates per second",
    "peak_memory_gib": "peak memory (GiB)",
    "seconds": "time (seconds)",
}
PARTS = {
    "mlm": "masked tokens",
    "mpm": "positions",
    "rtd": "replaced tokens",
    "oov": "unknown words",
    "ambiguous": "ambiguous words",
}


class MetricLabel(NamedTuple):
    """The name of a metric on an axis, and the factor on its values."""

    text: str
    factor: float = 1.0
    """From the logged value to the drawn one: 100 for percentages."""


def label_metric(metric: str) -> MetricLabel:
    """`mlm_loss` -> loss of masked tokens (nats)."""
    if metric in RATES:
        return MetricLabel(RATES[metric])
    part, _, kind = metric.rpartition("_")
    name = WORDS.get(kind, kind)
    if part in PARTS:
        name = f"{name} of {PARTS[part]}"
    elif part:
        name = f"{part.replace('_', ' ')} {name}"
    if kind in LOSSES:
        return MetricLabel(f"{name} (nats)")
    return MetricLabel(f"{name} (%)", 100.0) if kind in FRACTIONS else MetricLabel(name)


def label_subset(subset: str) -> str:
    """The name of a split in words."""
    return SUBSETS.get(subset, subset)


def label_variants(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Name of each variant in words, and a title for all if they differ in one option.

    `fixed=true, dynamic=false` -> fixed, no dynamic; `conv_type=span` -> span, of conv type;
    `arch=bert_small`, `arch=bert_tiny` -> small, tiny.
    """
    options = [name.split("=") for name in names if not name.endswith(("=true", "=false"))]
    if 1 < len(names) == len([it for it in options if len(it) == 2 and it[0] == options[0][0]]):
        values = drop_common_words([value for _, value in options])
        return dict(zip(names, values, strict=True)), to_words(options[0][0])
    shortened = drop_common_words(names)
    words = [", ".join(map(label_option, short.split(", "))) for short in shortened]
    return dict(zip(names, words, strict=True)), ""


def drop_common_words(names: Sequence[str]) -> list[str]:
    """`conv_san_add`, `conv_san_none` -> add, none."""
    if any("=" in name for name in names):
        return list(names)
    words = [name.split("_") for name in names]
    while len(words) > 1 and all(len(it) > 1 and it[0] == words[0][0] for it in words):
        words = [it[1:] for it in words]
    return ["_".join(it) for it in words]


def label_option(option: str) -> str:
    """`fixed=false` -> no fixed; `kernel_size=9` -> kernel size 9."""
    key, _, value = option.partition("=")
    if value in ("true", "false"):
        return "no " * (value == "false") + to_words(key)
    return f"{to_words(key)} {value}".strip()


def to_words(name: str) -> str:
    """A name with spaces for underscores."""
    return name.replace("_", " ").strip() or name


def parse_labels(labels: Iterable[str], known: Iterable[str]) -> Mapping[str, str]:
    """Name -> label of `--labels NAME=LABEL`; all names must be known."""
    pairs = {name: label for name, _, label in (text.rpartition("=") for text in labels)}
    names = list(dict.fromkeys(known))
    unknown = [name for name in pairs if name not in names]
    if unknown:
        raise ToolkitError(
            f"--labels must be NAME=LABEL with a name of the plot, but {unknown[0]!r} is none. "
            f"Names: {'; '.join(names)}."
        )
    return pairs
