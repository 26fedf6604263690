"""toolkit-generate score: BLEU, chrF and TER of translations by sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import ScoreConfig
from toolkit.data.text_files import read_text
from toolkit.metrics.translation import ALL_METRICS, corpus_scores
from toolkit.reporting.console import Output, TextStream

LABELS = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}


def score(config: ScoreConfig) -> None:
    """Run toolkit-generate score."""
    files = config.files
    with Output(config.json) as output:
        translations, references = map(read_sentences, files)
        if len(translations) != len(references):
            raise ToolkitError(
                f"{files[0]} has {len(translations)} lines, but {files[1]} has {len(references)}. "
                f"Every translation needs a reference on the same line."
            )
        if not references:
            raise ToolkitError(f"No lines to score: {files[0]} is empty.")
        options = {"language": config.target_lang, "tokenize": config.eval_bleu_tokenize}
        print_scores(translations, references, output, output.text_stream, **options)


def read_sentences(file: str) -> list[str]:
    """Lines of a text file without their ends, LF or CRLF."""
    lines = read_text(Path(file), may_be_empty=True, allow_pipe=True).split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def print_scores(
    translations: Sequence[str],
    references: Sequence[str],
    output: Output,
    stream: TextStream,
    **options: Any,
) -> None:
    """Print BLEU, chrF and TER with sacreBLEU's signatures; `options` are those of
    `corpus_scores`.
    """
    for it in corpus_scores(translations, references, names=ALL_METRICS, **options):
        detail = f" {it.detail}" if it.detail else ""
        print(f"{LABELS[it.name]} {it.value:.2f}{detail}  {it.signature}", file=stream)
        output.write("score", {"name": it.name, "value": it.value, "signature": it.signature})
