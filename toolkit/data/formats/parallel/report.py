"""What toolkit-preprocess shows of parallel text: one row a split, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.preprocessing.report import PLAIN
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table


def summary(
    destination: str,
    codec: ParallelCodec,
    meta: Mapping[str, Any],
    seconds: float,
    workers: int,
    output: Output,
) -> None:
    """Pairs and tokens of both languages, shares unknown, and the pairs left out or cut."""
    terminal, limit = output.terminal, meta["settings"]["max_item_tokens"]
    sides = codec.source_lang, codec.target_lang
    heads = ["split", "pairs", *(f"tokens {side}" for side in sides)]
    heads += [*(f"unknown {side}" for side in sides), "blank, left out"]
    heads += [f"over {limit}", "tokens lost"] if limit else []
    rows, total = [], 0
    for split, entry in meta["splits"].items():
        found = counts_of(entry)
        output.write("split", {"split": split, **found})
        tokens = found["tokens"], found["target_tokens"]
        unknown = found["unknown"], found["target_unknown"]
        shares = [f"{u / max(1, t):.3%}" for u, t in zip(unknown, tokens, strict=True)]
        names = ["empty", "too_long", "lost_tokens"][: 3 if limit else 1]
        counts = [f"{n:,}" for n in (found["pairs"], *tokens)]
        rows.append([split, *counts, *shares, *(f"{found[name]:,}" for name in names)])
        total += sum(tokens)
    symbols = sizes(codec)
    terminal.print(f"{destination}: {codec.languages}, {symbols}", **PLAIN)
    Table(columns=heads, rows=rows, numbers=heads[1:]).print(terminal)
    done = {"skip": "left out", "truncate": "shortened"}.get(meta["settings"]["too_long"])
    for split, entry in meta["splits"].items():
        if entry["too_long"]:
            terminal.print(f"{split}: {entry['too_long']:,} pairs too long, {done}", **PLAIN)
    rate = total / max(seconds, 1e-9)
    terminal.print(
        f"binarized {total:,} tokens in {seconds:.1f} s with {workers} "
        f"worker{'s' * (workers > 1)}: {rate:,.0f} tokens/s",
        **PLAIN,
    )
    words = len(codec.vocabulary), len(codec.target.vocabulary)
    figures = {"destdir": destination, "symbols": words[0], "target_symbols": words[1]}
    output.write("end", {**figures, "tokens": total, "seconds": seconds, "workers": workers})


def counts_of(entry: Mapping[str, Any]) -> dict[str, int]:
    """What a split holds."""
    columns = {name: column["parts"][0] for name, column in entry["columns"].items()}
    held = {
        "pairs": columns["tokens"]["items"],
        "tokens": columns["tokens"]["elements"],
        "target_tokens": columns["target"]["elements"],
    }
    return held | {name: value for name, value in entry.items() if isinstance(value, int)}


def sizes(codec: ParallelCodec) -> str:
    """How many symbols the languages have."""
    if codec.joined:
        return f"{len(codec.vocabulary):,} symbols for both languages"
    return f"{len(codec.vocabulary):,} and {len(codec.target.vocabulary):,} symbols"
