"""Options of running text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NonNegativeInt, Options, Rate


@dataclass(frozen=True, kw_only=True)
class TextFormatConfig(Options, section="format"):
    """Options of the format for running text."""

    segment_by: Literal["lines", "paragraphs", "sentences"] = "lines"
    """What makes an item. lines: each line (one sentence per line, as in Chang et al.); a blank
    line ends a document. paragraphs: lines up to a blank line, joined. sentences: paragraphs split
    after . ! ? if a new sentence seems to begin; suits books and other running text."""
    text_field: str = ""
    """Field or column that holds the text of each row of JSON lines, CSV, TSV, Parquet or Arrow
    files. A folder stands for its .jsonl, .ndjson, .csv, .tsv, .parquet and .arrow files."""
    rows: Literal["documents", "lines"] = "documents"
    """What the rows of --text-field are. documents: each row is read like a file. lines: all rows
    of a file are read like the lines of one; an empty row is a blank line."""
    valid_fraction: Rate = 0.0
    """Fraction of the training text to hold out as split valid: runs of 16 items at regular
    intervals, chosen by their position alone."""
    test_fraction: Rate = 0.0
    """Fraction of the training text to hold out as split test."""
    max_item_tokens: NonNegativeInt = 0
    """Maximum number of tokens per item, without special symbols; 0 for no limit."""
    overlength: Literal["error", "skip", "truncate", "split"] = "error"
    """How to handle items that exceed the limit. error: stop and name the line. skip: leave them
    out. truncate: drop their tail. split: split them into several items, before a word if
    possible. The table and meta.json give the number of items and tokens of each split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.valid_fraction + self.test_fraction >= 1:
            raise ToolkitError(
                f"valid_fraction and test_fraction must leave text to train on, but are "
                f"{self.valid_fraction} and {self.test_fraction}."
            )
