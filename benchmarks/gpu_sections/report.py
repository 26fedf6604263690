"""The results as JSON and Markdown, written again after every row."""

from __future__ import annotations

import datetime
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import table

from gpu_sections.context import Context, Row
from toolkit.common.files import atomic_file
from toolkit.common.json_files import dumps
from toolkit.distributed.world import gpu_name


class Report:
    """Sections by name, each with its rows, its seconds and perhaps the error that ended it."""

    def __init__(self, folder: Path | None, name: str, facts: dict[str, Any]) -> None:
        self.folder, self.name, self.facts = folder, name, facts
        self.sections: dict[str, dict[str, Any]] = {}

    def begin(self, section: str, title: str) -> None:
        self.sections[section] = {"title": title, "rows": []}
        print(f"\n## {title}", flush=True)

    def add(self, section: str, row: Row) -> None:
        self.sections[section]["rows"].append(row)
        print("; ".join(f"{k} {show(v)}" for k, v in row.items() if v is not None), flush=True)
        self.write()

    def end(self, section: str, seconds: float, error: str | None) -> None:
        self.sections[section] |= {"seconds": round(seconds, 1), "error": error}
        print(f"({seconds:.0f} s{f', {error}' if error else ''})", flush=True)
        self.write()

    def write(self) -> None:
        if self.folder is None:
            return
        text = dumps({**self.facts, "sections": self.sections}, indent=1)
        for suffix, content in ((".json", text + "\n"), (".md", self.markdown())):
            with atomic_file(self.folder / (self.name + suffix)) as path:
                path.write_text(content, "utf-8")

    def markdown(self) -> str:
        lines = [f"# {self.facts['title']}, {self.facts['date']}", ""]
        lines += [f"    {self.facts['command']}", "", self.facts["description"]]
        for name, section in self.sections.items():
            tables = [SUMMARIES[name](section["rows"])] if name in SUMMARIES else []
            lines += ["", f"## {section['title']}"]
            for rows in [*tables, section["rows"]]:
                lines += ["", rows_table(rows)]
            if section.get("error"):
                lines += ["", f"Ended by {section['error']}"]
        return "\n".join(lines) + "\n"


def make_report(folder: Path | None, ctx: Context, description: str) -> Report:
    """A report on this device and day, in files DAY-gpu-DEVICE of the folder, if one is given."""
    day, device = datetime.date.today().isoformat(), gpu_name(ctx.device)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "title": f"The toolkit on {device}" + ", a smoke test" * ctx.smoke,
        "date": day,
        "command": shlex.join(["python", *sys.argv]),
        "description": description.split("\n", 4)[4].strip(),
    }
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return Report(folder, f"{day}-gpu-{slug}", facts)


def rows_table(rows: Sequence[Row]) -> str:
    """A column for every key that has a value in some row."""
    keys = [k for k in dict.fromkeys(k for row in rows for k in row) if has_values(rows, k)]
    if not keys:
        return "No rows."
    return table(keys, ([show(row.get(key)) for key in keys] for row in rows))


def speed_by_variant(rows: Sequence[Row]) -> list[Row]:
    """One line per group and program, with a column for each variant that was measured."""
    lines: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = row["group"], row["program"]
        line = lines.setdefault(key, {"tokens/s": row["group"], "program": row["program"]})
        line[row["variant"]] = row.get("tokens/s") or row.get("failure")
    return list(lines.values())


SUMMARIES = {"speed": speed_by_variant}
"""Section -> a shorter table that precedes its own."""


def has_values(rows: Sequence[Row], key: str) -> bool:
    return any(row.get(key) is not None for row in rows)


def show(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value).replace("|", "\\|").replace("\n", " ")
