"""Generate the tables of options in docs/coming-from/*.md.

    python tools/option_tables.py            # rewrite all tables
    python tools/option_tables.py --check    # exit 1 if a table is out of date

A table is between `<!-- table: TOOL -->` and `<!-- end -->`; TOOL is fairseq, huggingface or
joeynmt. `<!-- table: fairseq training data -->` is limited to options of these sections, `none` to
names without a counterpart. The names are those of tools/docs_site/other_names.py.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from toolkit.cli.toolkit import COMMANDS  # noqa: E402
from tools.docs_site.catalog import list_entries  # noqa: E402
from tools.docs_site.option_entries import CODE  # noqa: E402
from tools.docs_site.other_names import TOOLS, OtherName, other_names  # noqa: E402
from tools.table_cells import Rows, markdown  # noqa: E402

PAGES = sorted((REPOSITORY / "docs/coming-from").glob("*.md"))
TABLE = re.compile(r"(<!-- table: (\w+)((?: \w+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def option_table(tool: str, sections: list[str]) -> Rows:
    """Name there, option here, remark; of all sections if none is named."""
    chosen = [o for o in other_names(tool) if not sections or section(o) in sections]
    rows = [[f"`{o.written(tool)}`", option_cell(o), remark_cell(o)] for o in chosen]
    return [[TOOLS[tool], "toolkit", "remark"], *rows]


def drop_empty_columns(rows: Rows) -> Rows:
    filled = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    return [[row[i] for i in filled] for row in rows]


def section(other: OtherName) -> str:
    return other.keys[0].partition(".")[0] if other.keys else "none"


def option_cell(other: OtherName) -> str:
    """The flag to write, with its command if that is not toolkit-train."""
    if not other.keys:
        return ""
    flags = {entry.key: entry.flag for entry in list_entries()}
    command = other.keys[0].partition(".")[0]
    of_command = f" of `toolkit-{command}`" if command in COMMANDS else ""
    return f"`{f'{flags[other.keys[0]]} {other.value}'.rstrip()}`{of_command}"


def remark_cell(other: OtherName) -> str:
    """The remark, its flags and commands as code."""
    code = rf"`[^`]*`|{CODE.pattern}"
    return re.sub(code, lambda match: f"`{match[0].strip('`')}`", other.remark)


def regenerate(page: Path) -> str:
    """The text of a page with its tables regenerated."""

    def fill(match: re.Match[str]) -> str:
        table = drop_empty_columns(option_table(match[2], match[3].split()))
        return f"{match[1]}\n{markdown(table)}\n{match[4]}"

    return TABLE.sub(fill, page.read_text("utf-8"))


def list_outdated() -> list[Path]:
    return [page for page in PAGES if regenerate(page) != page.read_text("utf-8")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only compare")
    outdated = list_outdated()
    if parser.parse_args().check:
        sys.exit("\n".join(f"{page}: run tools/option_tables.py" for page in outdated) or 0)
    for page in outdated:
        page.write_text(regenerate(page), "utf-8")
        print(f"updated {page}")


if __name__ == "__main__":
    main()
