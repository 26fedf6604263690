"""Size of the package and the tests, and the cap that continuous integration holds.

    python tools/size.py            # the table; exit code 1 if a number is above its cap
    python tools/size.py --lower    # lower the caps to today's numbers

Statements do not count docstrings, so that blank lines, wrapping and documentation are free. A cap
is raised by hand, in tools/size.json, in a commit that says why.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAPS = ROOT / "tools" / "size.json"
COLUMNS = ("files", "lines", "statements", "functions", "classes", "raises")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a text and nothing else."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def count(folder: Path) -> Counter[str]:
    """Numbers of a folder of Python files."""
    sizes: Counter[str] = Counter()
    for file in folder.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        sizes.update(files=1, lines=text.count("\n"))
        for node in ast.walk(ast.parse(text)):
            sizes["statements"] += isinstance(node, ast.stmt) and not is_docstring(node)
            sizes["functions"] += isinstance(node, FUNCTIONS)
            sizes["classes"] += isinstance(node, ast.ClassDef)
            sizes["raises"] += isinstance(node, ast.Raise)
    return sizes


def main() -> int:
    sizes = {name: count(ROOT / name) for name in ("toolkit", "tests")}
    packages = sorted(file.parent for file in (ROOT / "toolkit").glob("*/__init__.py"))
    rows = {**sizes, **{f"  {package.name}": count(package) for package in packages}}
    print(f"{'':14}" + "".join(f"{column:>12}" for column in COLUMNS))
    for name, row in rows.items():
        print(f"{name:14}" + "".join(f"{row[column]:>12,}" for column in COLUMNS))
    caps = json.loads(CAPS.read_text())
    if "--lower" in sys.argv:
        lowered = {
            name: {column: min(cap, sizes[name][column]) for column, cap in columns.items()}
            for name, columns in caps.items()
        }
        CAPS.write_text(json.dumps(lowered, indent=2) + "\n")
        return 0
    over = [
        f"{name} has {sizes[name][column]:,} {column}, {sizes[name][column] - cap:,} over the cap"
        for name, columns in caps.items()
        for column, cap in columns.items()
        if sizes[name][column] > cap
    ]
    for line in over:
        print(f"{line}. Make it smaller, or raise tools/size.json in a commit that says why.")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
