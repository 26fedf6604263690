"""Outputs of a notebook in the page that it comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tools.notebooks.cells import BLOCK, parse_page

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def write_outputs(page: str, code_cells: Sequence[Mapping[str, Any]]) -> str:
    """The page with the outputs of the notebook's code cells in its `text` blocks.

    A block whose first line is `...` shows the last lines only, as many as it has.
    """
    outputs, cells = [], iter(code_cells)
    for cell in parse_page(page):
        if cell.is_code:
            output = printed(next(cells)["outputs"])
        elif cell.kind == "text":
            outputs.append(output)
    remaining = iter(outputs)

    def replaced(block: re.Match[str]) -> str:
        if block["kind"] != "text":
            return block[0]
        return f"```text\n{shorten(next(remaining), block['text'])}\n```\n"

    return BLOCK.sub(replaced, page)


def shorten(output: str, shown: str) -> str:
    lines = shown.splitlines()
    if not lines or lines[0] != "...":
        return output
    return "\n".join(["...", *output.splitlines()[1 - len(lines) :]])


def printed(outputs: Sequence[Mapping[str, Any]]) -> str:
    """The text that a cell printed, and its value; no pictures and no bars."""
    parts = [
        output["text"]
        if output["output_type"] == "stream"
        else output["data"].get("text/plain", "")
        for output in outputs
        if "image/png" not in output.get("data", {})
    ]
    lines = (visible(line) for line in "".join("".join(part) for part in parts).splitlines())
    return "\n".join(line for line in lines if "━" not in line).strip("\n")


def visible(line: str) -> str:
    """A line without control sequences, and what a progress bar left of it."""
    return CONTROL.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip()
