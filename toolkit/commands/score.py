"""How good translations are, against references, as sacreBLEU counts it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import ScoreConfig
from toolkit.data.text_files import read_text
from toolkit.metrics.translation import ALL_METRICS, corpus_scores
from toolkit.reporting.json_output import Output

LABELS = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}


def score(config: ScoreConfig) -> None:
    with Output(config.json) as output:
        score_files(config.files, output)


def score_files(files: Sequence[str], output: Output) -> None:
    """Of two files, translations and references, line by line."""
    translations, references = (read_lines(file) for file in files)
    if len(translations) != len(references):
        raise ToolkitError(
            f"{files[0]} has {len(translations)} lines, but {files[1]} has {len(references)}. "
            f"Every translation needs its reference."
        )
    if not references:
        raise ToolkitError(f"No lines to score: {files[0]} is empty.")
    print_scores(translations, references, output, output.text_stream)


def read_lines(file: str) -> list[str]:
    """Lines of a text file without their ends, LF or CRLF."""
    text = read_text(Path(file), may_be_empty=True)
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def print_scores(
    translations: Sequence[str],
    references: Sequence[str],
    output: Output,
    stream: Any,
    *,
    lowercase: bool = False,
) -> None:
    """BLEU, chrF and TER, each with the signature that says how it was counted."""
    for found in corpus_scores(translations, references, names=ALL_METRICS, lowercase=lowercase):
        label = LABELS[found.name]
        detail = f" {found.detail}" if found.detail else ""
        print(f"{label} {found.value:.2f}{detail}  {found.signature}", file=stream)
        value = {"name": found.name, "value": found.value, "signature": found.signature}
        output.write("score", value)
