"""Generate the tables of examples/*/README.md from the records next to them.

    python tools/example_tables.py                        # rewrite all tables
    python tools/example_tables.py --check                # exit 1 if a table is out of date
    python tools/example_tables.py taco --runs FOLDER     # print the tables of your own runs
    python tools/example_tables.py conv_san --runs FOLDER --name ud

`tools/tables/NAME.py` defines the tables. In the README a table is between `<!-- table: KEY -->`
and `<!-- end -->`. FOLDER holds save directories of toolkit-train, or is a runs.jsonl file.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from pathlib import Path

from run_records import load_runs
from table_cells import Rows, markdown

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
TABLE = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables(example: str, source: Path, name: str = "") -> dict[str, Rows]:
    """Key -> rows of each table that has runs."""
    build = runpy.run_path(str(HERE / "tables" / f"{example}.py"))["tables"]
    built = build(load_runs(source, name), source)
    return {key: rows for key, rows in built if len(rows) > 1}


def regenerate(readme: Path) -> str:
    """The text of a README with its tables regenerated."""
    known = tables(readme.parent.name, readme.parent)

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}\n{markdown(known[match[2]])}\n{match[3]}"

    return TABLE.sub(fill, readme.read_text("utf-8"))


def list_readmes() -> list[Path]:
    """The READMEs of all examples that have records."""
    folders = [EXAMPLES / path.stem for path in sorted(HERE.glob("tables/*.py"))]
    return [folder / "README.md" for folder in folders if any(folder.glob("*.jsonl"))]


def list_outdated() -> list[Path]:
    return [readme for readme in list_readmes() if regenerate(readme) != readme.read_text("utf-8")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("example", nargs="?", help="name of an example, with --runs")
    parser.add_argument("--runs", type=Path, help="your own runs")
    parser.add_argument("--name", default="", help="experiment that the runs belong to")
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args()
    if (args.example is None) != (args.runs is None):
        parser.error("an example's name and --runs require each other.")
    if args.runs:
        for rows in tables(args.example, args.runs, args.name).values():
            print(markdown(rows))
    elif args.check:
        sys.exit(
            "\n".join(f"{readme}: run tools/example_tables.py" for readme in list_outdated()) or 0
        )
    else:
        for readme in list_outdated():
            readme.write_text(regenerate(readme), "utf-8")
            print(f"updated {readme}")


if __name__ == "__main__":
    main()
