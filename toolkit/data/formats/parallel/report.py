"""What toolkit-preprocess shows of parallel text: one row a split, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.data.formats.parallel.tokenizer import ParallelTokenizer
from toolkit.data.preprocessing.report import PLAIN
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table


def print_summary(
    destination: str,
    tokenizer: ParallelTokenizer,
    meta: Mapping[str, Any],
    seconds: float,
    workers: int,
    output: Output,
) -> None:
    """Pairs and tokens of both languages, shares unknown, and the pairs left out or cut."""
    terminal, limit = output.console, meta["settings"]["max_item_tokens"]
    sides = tokenizer.source_lang, tokenizer.target_lang
    heads = ["split", "pairs", *(f"tokens {side}" for side in sides)]
    heads += [*(f"unknown {side}" for side in sides), "blank, left out"]
    heads += [f"over {limit}", "tokens lost"] if limit else []
    rows, total = [], 0
    for split, entry in meta["splits"].items():
        found = count_split(entry)
        output.write("split", {"split": split, **found})
        tokens = found["tokens"], found["target_tokens"]
        unknown = found["unknown"], found["target_unknown"]
        shares = [f"{u / max(1, t):.3%}" for u, t in zip(unknown, tokens, strict=True)]
        names = ["empty", "overlength", "lost_tokens"][: 3 if limit else 1]
        counts = [f"{n:,}" for n in (found["pairs"], *tokens)]
        rows.append([split, *counts, *shares, *(f"{found[name]:,}" for name in names)])
        total += sum(tokens)
    symbols = sizes(tokenizer)
    terminal.print(f"{destination}: {tokenizer.languages}, {symbols}", **PLAIN)
    Table(columns=heads, rows=rows, right_align=heads[1:]).print(terminal)
    done = {"skip": "left out", "truncate": "shortened"}.get(meta["settings"]["overlength"])
    for split, entry in meta["splits"].items():
        if entry["overlength"]:
            terminal.print(f"{split}: {entry['overlength']:,} pairs too long, {done}", **PLAIN)
    rate = total / max(seconds, 1e-9)
    terminal.print(
        f"binarized {total:,} tokens in {seconds:.1f} s with {workers} "
        f"worker{'s' * (workers > 1)}: {rate:,.0f} tokens/s",
        **PLAIN,
    )
    words = len(tokenizer.vocabulary), len(tokenizer.target.vocabulary)
    figures = {"destdir": destination, "symbols": words[0], "target_symbols": words[1]}
    output.write("end", {**figures, "tokens": total, "seconds": seconds, "workers": workers})


def count_split(entry: Mapping[str, Any]) -> dict[str, int]:
    """What a split holds."""
    columns = {name: column["parts"][0] for name, column in entry["columns"].items()}
    held = {
        "pairs": columns["tokens"]["items"],
        "tokens": columns["tokens"]["elements"],
        "target_tokens": columns["target"]["elements"],
    }
    return held | {name: value for name, value in entry.items() if isinstance(value, int)}


def sizes(tokenizer: ParallelTokenizer) -> str:
    """How many symbols the languages have."""
    if tokenizer.joined:
        return f"{len(tokenizer.vocabulary):,} symbols for both languages"
    return f"{len(tokenizer.vocabulary):,} and {len(tokenizer.target.vocabulary):,} symbols"
