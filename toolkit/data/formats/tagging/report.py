"""What toolkit-preprocess shows of tagged text: one row a split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table

HEADS = ("split", "files", "sentences", "words", "out of vocabulary", "ambiguous", "unseen tags")


def print_summary(
    destination: str,
    tokenizer: TaggingTokenizer,
    meta: Mapping[str, Any],
    vectors: str,
    seconds: float,
    output: Output,
) -> None:
    """Files, sentences, words, and the shares that are out of vocabulary and ambiguous."""
    rows = []
    for split, entry in meta["splits"].items():
        found = {"sentences": entry["columns"]["types"]["parts"][0]["items"]}
        found |= {name: entry[name] for name in ("words", "oov", "ambiguous", "unseen_tags")}
        output.write("split", {"split": split, "files": len(entry["files"]), **found})
        shares = [f"{found[name] / found['words']:.2%}" for name in ("oov", "ambiguous")]
        counts = [f"{len(entry['files']):,}", f"{found['sentences']:,}", f"{found['words']:,}"]
        rows.append([split, *counts, *shares, f"{found['unseen_tags']:,}"])
    tables, words = tokenizer.tables, sum(entry["words"] for entry in meta["splits"].values())
    pieces = "" if tokenizer.has_words else f", {len(tokenizer.vocabulary):,} pieces"
    tags = f"{len(tables.tags)} tag{'s' if len(tables.tags) > 1 else ''}"
    terminal = output.console
    print_line(
        terminal,
        f"{destination}: {len(tables.words):,} known words{pieces}, {tags}, "
        f"{len(tables.characters):,} characters",
    )
    Table(columns=HEADS, rows=rows, right_align=HEADS[1:]).print(terminal)
    if vectors:
        print_line(terminal, vectors)
    print_line(terminal, f"read {words:,} words in {seconds:.1f} s")
    figures = {"destdir": destination, "known_words": len(tables.words), "tags": len(tables.tags)}
    output.write("end", {**figures, "words": words, "seconds": seconds})


def print_line(terminal: Console, line: str) -> None:
    terminal.print(line, highlight=False, markup=False, soft_wrap=True)
