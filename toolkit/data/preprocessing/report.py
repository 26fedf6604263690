"""What toolkit-preprocess shows: progress while it works, one table at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table

PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}


def log_training(what: str, items: Sequence[str]) -> None:
    """What learning starts on; it does not tell how far it is."""
    characters = sum(map(len, items))
    print(
        f"training {what} on {len(items):,} items, {characters / 1e6:.1f} M characters",
        file=sys.stderr,
    )


def log_trained(what: str, tokenizer: Tokenizer, config: PreprocessConfig, seconds: float) -> None:
    """How long it took, and whether the text filled the vocabulary that was asked."""
    words = tokenizer.vocabulary
    added = {*words.special, words.unk} if what == "WordPiece" else set(words.special)
    pieces = len(words) - len(added)
    short = f"; the text has no more, {config.vocab_size} were asked for"
    print(
        f"trained {pieces} {what} pieces in {seconds:.1f} s"
        f"{short if pieces < config.vocab_size else ''}",
        file=sys.stderr,
    )


def log_word_counts(counts: Mapping[str, int], tokenizer: Tokenizer, seconds: float) -> None:
    """How many words there are, and what share of the text the kept ones make."""
    words = tokenizer.vocabulary
    kept = [
        symbol for i, symbol in enumerate(words.symbols) if i not in (*words.special, words.unk)
    ]
    total, known = sum(counts.values()), sum(counts[word] for word in kept)
    print(
        f"counted {total:,} words, {len(counts):,} different ones, in {seconds:.1f} s; the "
        f"{len(kept):,} kept are {known / max(1, total):.2%} of the text",
        file=sys.stderr,
    )


def print_summary(
    destination: str, meta: Mapping[str, Any], seconds: float, workers: int, output: Output
) -> None:
    """One row a split: documents, items, tokens, share unknown, and what was too long."""
    limit = meta["settings"]["max_item_tokens"]
    heads = ["split", "documents", "items", "tokens", "unknown"]
    heads += [f"over {limit}", "tokens lost"] if limit else []
    heads.append("parts")
    rows = []
    counts = {split: count_split(entry) for split, entry in meta["splits"].items()}
    for split, found in counts.items():
        output.write("split", {"split": split, **found})
        cells = [f"{found[key]:,}" for key in ("documents", "items", "tokens")]
        cells.append(f"{found['unknown'] / found['tokens']:.3%}")
        cells += [f"{found[key]:,}" for key in ("overlength", "lost_tokens")] if limit else []
        rows.append([split, *cells, str(found["parts"])])
    total = sum(found["tokens"] for found in counts.values())
    console, symbols = output.console, meta["vocabulary"]["symbols"]
    rate = total / max(seconds, 1e-9)
    console.print(f"{destination}: {symbols:,} symbols", **PLAIN)
    Table(columns=heads, rows=rows, right_align=heads[1:]).print(console)
    for line in _remarks(meta):
        console.print(line, **PLAIN)
    console.print(
        f"binarized {total:,} tokens in {seconds:.1f} s with {workers} "
        f"worker{'s' if workers > 1 else ''}: {rate:,.0f} tokens/s",
        **PLAIN,
    )
    figures = {"destdir": destination, "symbols": symbols, "tokens": total, "workers": workers}
    output.write("end", {**figures, "seconds": seconds, "tokens_per_second": rate})


def count_split(entry: Mapping[str, Any]) -> dict[str, int]:
    """What a split holds, over its parts."""
    (column,) = entry["columns"].values()
    names = {"documents": "documents", "items": "items", "elements": "tokens"}
    sums = {name: sum(part[key] for part in column["parts"]) for key, name in names.items()}
    told = {key: entry[key] for key in ("unknown", "overlength", "lost_tokens", "empty")}
    return {**sums, **told, "parts": len(column["parts"])}


def _remarks(meta: Mapping[str, Any]) -> Iterator[str]:
    """What the table does not say of items that were changed or left out."""
    done = {"skip": "left out", "truncate": "shortened", "split": "cut in several"}
    for split, entry in meta["splits"].items():
        if entry["overlength"]:
            how = done[meta["settings"]["overlength"]]
            yield f"{split}: {_items(entry['overlength'])} too long, {how}"
        if entry["empty"]:
            yield f"{split}: {_items(entry['empty'])} of invisible characters only, left out"


def _items(number: int) -> str:
    return f"{number:,} item{'s' * (number != 1)}"
