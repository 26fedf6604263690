"""How good translations are, against references, as sacreBLEU counts it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import ScoreConfig
from toolkit.data.text_files import DECOMPRESSION_ERRORS, DECOMPRESSORS
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
    """Lines of a text file, packed or not, without their ends, those of Unix or of Windows."""
    try:
        with DECOMPRESSORS.get(Path(file).suffix, open)(file, "rb") as packed:
            text = packed.read().decode("utf-8-sig")
    except DECOMPRESSION_ERRORS as error:  # before OSError, of which one of them is a kind
        raise ToolkitError(
            f"{file} is truncated or damaged: {error}. Unpack or copy it again."
        ) from None
    except UnicodeDecodeError as error:
        raise ToolkitError(f"{file} is not UTF-8 at byte {error.start + 1}. Convert it.") from None
    except OSError as error:
        raise ToolkitError(f"{file} is not readable: {error.strerror}.") from None
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
