"""Tables for the terminal, Markdown, LaTeX and JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from toolkit.common import json_files
from toolkit.common.errors import CONTROLS
from toolkit.common.json_files import JsonObject
from toolkit.reporting.console import Console, print_plain

Cell = str | int | float | None
LATEX_ESCAPES = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with a caption and a note, independent of its format."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    marked: Sequence[int] = ()
    """Indices of the rows to mark with a star; in bold instead if only one is."""
    caption: str = ""
    note: str = ""
    """One line below the table."""
    shared_precision: Sequence[str] = ()
    """Columns of one quantity, printed with equal decimals."""
    right_align: Sequence[str] = ()
    """Columns of formatted numbers, such as 1,200 and 3.4%."""

    def text(self) -> str:
        """Aligned columns."""
        cells = [list(self.columns), *self.format_rows()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        numeric = self.numeric
        aligned = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, numeric, strict=True)
            ).rstrip()
            for line in cells
        ]
        return "".join(f"{line}\n" for line in [self.caption, *aligned, self.note] if line)

    def markdown(self) -> str:
        """A pipe table between its caption and its note."""
        heads = " | ".join(map(escape_pipes, self.columns))
        rules = " | ".join("---:" if number else "---" for number in self.numeric)
        rows = self.format_rows("**{}**", escape_pipes)
        table = "\n".join(f"| {line} |" for line in (heads, rules, *map(" | ".join, rows)))
        return "\n".join(f"{part}\n" for part in (self.caption, table, self.note) if part)

    def latex(self) -> str:
        r"""A table for \usepackage{booktabs}, with its label; the note is below the caption."""
        heads = " & ".join(map(escape_latex, self.columns))
        rows = self.format_rows(r"\textbf{{{}}}", escape_latex)
        caption = ". ".join(escape_latex(text) for text in (self.caption, self.note) if text)
        label = re.sub(r"\W+", "-", self.caption.lower()).strip("-")
        lines = [
            r"\begin{table}",
            r"\centering",
            *([f"\\caption{{{caption}.}}", f"\\label{{tab:{label}}}"] if caption else []),
            f"\\begin{{tabular}}{{{''.join('r' if number else 'l' for number in self.numeric)}}}",
            "\\toprule",
            f"{heads} \\\\",
            "\\midrule",
            *(f"{' & '.join(row)} \\\\" for row in rows),
            "\\bottomrule",
            "\\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def json(self, **more: object) -> str:
        """Full precision: the values of this table, and `more`."""
        return json_files.dumps({**self.values(), **more}, indent=2) + "\n"

    def values(self) -> JsonObject:
        """{"caption": ..., "marked": [row], "rows": [{column: cell}], "note": ...}."""
        return {
            "caption": self.caption,
            "marked": list(self.marked),
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "note": self.note,
        }

    def print(self, console: Console | None = None) -> None:
        """Print with rich on a terminal, as wide as that; elsewhere as text."""
        console = console or Console()
        if not console.is_interactive:
            print_plain(console, self.text(), end="")
            return
        drawing = RichTable(title=Text(self.caption) if self.caption else None, box=SIMPLE_HEAD)
        for name, number in zip(self.columns, self.numeric, strict=True):
            drawing.add_column(Text(name), justify="right" if number else "left", overflow="fold")
        for index, row in enumerate(self.format_rows()):
            drawing.add_row(*map(Text, row), style="bold" if [index] == [*self.marked] else "")
        console.print(drawing)
        if self.note:
            print_plain(console, self.note)

    @property
    def numeric(self) -> list[bool]:
        """Per column, whether its cells are numbers or None."""
        return [
            name in self.right_align
            or (
                any(isinstance(row[i], int | float) for row in self.rows)
                and not any(isinstance(row[i], str) for row in self.rows)
            )
            for i, name in enumerate(self.columns)
        ]

    def format_rows(self, bold: str = "{} *", clean: Callable[[str], str] = str) -> list[list[str]]:
        """Cells as text; the first of a marked row has a star, or is bold if only one is marked."""
        columns = [
            [format_cell(row[i], decimals) for row in self.rows]
            for i, decimals in enumerate(map(self.decimals, range(len(self.columns))))
        ]
        rows = [[clean(cell) for cell in row] for row in zip(*columns, strict=True)]
        for index in self.marked:
            mark = bold if len(self.marked) == 1 else "{} *"
            rows[index][0] = mark.format(rows[index][0])
        return rows

    def decimals(self, column: int) -> int:
        """Decimals for five significant digits of the largest number of the column."""
        shared = [i for i, name in enumerate(self.columns) if name in self.shared_precision]
        cells = [row[i] for row in self.rows for i in (shared if column in shared else [column])]
        sizes = [abs(c) for c in cells if isinstance(c, float) and math.isfinite(c) and c]
        return min(max(4 - math.floor(math.log10(max(sizes))), 0), 7) if sizes else 1


def format_cell(cell: Cell, decimals: int) -> str:
    """A float with these decimals, without the sign of a zero; a dash for None; escaped text."""
    if isinstance(cell, float):
        return f"{round(float(cell), decimals) + 0.0:.{decimals}f}"
    return "-" if cell is None else str(cell).translate(CONTROLS)


def escape_latex(text: str) -> str:
    """Escape LaTeX's special characters."""
    return "".join(LATEX_ESCAPES.get(character, character) for character in text)


def escape_pipes(text: str) -> str:
    """Escape the separator of Markdown cells."""
    return text.replace("|", "\\|")
