"""Options of toolkit-predict."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import PositiveInt
from toolkit.config.input_paths import COMPRESSION
from toolkit.config.option_groups import (
    BatchOptions,
    OutputOptions,
    PrecisionOptions,
    WeightsOptions,
    check_distinct_files,
)
from toolkit.config.options import ADVANCED

FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".conllu": "conllu"}
"""Ending of a file -> its format; other files are plain text, except those of OTHER_FORMATS."""
OTHER_FORMATS = (".csv", ".parquet", ".arrow")


@dataclass(frozen=True, kw_only=True)
class PredictConfig(
    WeightsOptions,
    BatchOptions,
    PrecisionOptions,
    OutputOptions,
    required={"path": "--path is required: a checkpoint or a save folder."},
):
    """Options of toolkit-predict."""

    path: str = ""
    """Checkpoint, or a save folder, whose best checkpoint is used."""
    input: str = "-"
    """File with the items (also .gz, .xz, .zst), one per line, or sentences of CoNLL-U; - reads
    standard input."""
    output: str = "-"
    """File for the predictions, one line per input line; - writes to standard output."""
    input_format: Literal["auto", "text", "tsv", "jsonl", "conllu"] = "auto"
    """text: the parts of an item separated by tabs, without names. tsv: a table with names in its
    first line. jsonl: JSON lines. conllu: CoNLL-U, for taggers. auto: by the ending of the
    file, text for standard input."""
    output_format: Literal["auto", "text", "tsv", "jsonl", "conllu"] = "auto"
    """The same formats. auto: by the ending of --output, that of the input for standard output."""
    text_columns: str = ""
    """Names of the columns, or JSON keys, that the task reads, separated by commas, if they are not
    its own, such as sentence1,sentence2."""
    on_malformed: Literal["error", "skip"] = "error"
    """How to handle a malformed line. error: stop and name it. skip: report it, and answer it with
    an empty line."""
    buffer_size: PositiveInt = field(default=1000, metadata=ADVANCED)
    """Lines to read before answering. They are sorted by length, which is faster. Lines typed at a
    terminal are answered one by one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        files = {"--input": self.input, "--output": self.output, "--json": self.json}
        check_distinct_files((flag, None if it == "-" else it) for flag, it in files.items())
        if (self.resolved_output == "conllu") > (self.resolved_input == "conllu"):
            raise ToolkitError(
                "--output-format conllu requires input in CoNLL-U. Choose text, tsv or jsonl."
            )
        if self.text_columns and self.resolved_input in ("text", "conllu"):
            raise ToolkitError(
                f"--text-columns requires a table or JSON lines, but the input format is "
                f"{self.resolved_input}. Add --input-format tsv or jsonl."
            )

    @property
    def resolved_input(self) -> str:
        """The input format, with auto resolved."""
        if self.input_format != "auto":
            return self.input_format
        return format_of("input", self.input)

    @property
    def resolved_output(self) -> str:
        """The output format, with auto resolved."""
        if self.output_format != "auto":
            return self.output_format
        return self.resolved_input if self.output == "-" else format_of("output", self.output)


def format_of(option: str, path: str) -> str:
    """The format that the ending of a file means."""
    name = Path(path)
    ending = (name.with_suffix("") if name.suffix in COMPRESSION else name).suffix
    if ending in OTHER_FORMATS:
        raise ToolkitError(
            f"--{option} {path}: toolkit-predict reads and writes plain text, TSV, JSON lines and "
            f"CoNLL-U, not {ending}. Use one of these, or name the format with --{option}-format."
        )
    return FORMATS.get(ending, "text")
