"""docs/reference/metrics.md names every metric that the code reports, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.metrics.classification import CLASSIFICATION_METRICS, REGRESSION_METRICS
from toolkit.metrics.translation import DEFAULT_METRICS
from toolkit.tasks.completions.results import FRACTIONS, METRICS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/reference/metrics.md").read_text(encoding="utf-8")
FILES = [
    *sorted((REPOSITORY / "toolkit/tasks").glob("**/*.py")),
    REPOSITORY / "toolkit/training/callbacks/logging.py",
]
FUNCTIONS = {"metrics", "token_metrics", "loss_metrics", "compute", "compute_with_null"}
FUNCTIONS |= {"measure_training", "utilization"}
OTHER_KEYS = {"update", "epoch"}


def keys(function: ast.FunctionDef) -> Iterator[str]:
    """The keys of dicts in a function, and the names that it assigns to; * for a variable."""
    for node in ast.walk(function):
        if isinstance(node, ast.Dict):
            yield from filter(None, map(name_of, node.keys))
        if isinstance(node, ast.DictComp) and isinstance(node.key, ast.JoinedStr):
            yield name_of(node.key)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield name_of(node.slice)


def name_of(node: ast.expr | None) -> str:
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.Constant) else "*" for p in node.values]
        return "".join(map(str, parts))
    return str(node.value) if isinstance(node, ast.Constant) else ""


def reported() -> set[str]:
    """Metrics of all tasks and of training; * for the name of an objective or a subset."""
    found = {*CLASSIFICATION_METRICS, *REGRESSION_METRICS, *DEFAULT_METRICS}
    found |= {*METRICS, *FRACTIONS, "pairs", "items"}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS:
                found |= set(keys(node))
    return found - OTHER_KEYS - {""}


def described() -> set[str]:
    """The names in the column `metric` of the page's tables; <objective> is *."""
    found: set[str] = set()
    column = None
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if "metric" in cells:
            column = cells.index("metric")
        elif len(cells) == 1:
            column = None
        elif column:
            found |= set(re.findall(r"`([^`]+)`", cells[column]))
    return {re.sub(r"<\w+>", "*", name) for name in found}


def matches(name: str, names: set[str]) -> bool:
    """Whether one of the names, whose * is any word, is this one."""
    return any(re.fullmatch(other.replace("*", r"[\w*]+"), name) for other in names)


def test_metrics_of_the_code_are_all_on_the_page():
    names = described()
    plain = {name for name in reported() if "*" not in name and not matches(name, names)}
    patterns = {p for p in reported() if "*" in p and not any(matches(n, {p}) for n in names)}
    assert not plain | patterns


def test_metrics_of_the_page_are_all_in_the_code():
    known = reported()
    assert not {name for name in described() if not matches(name, known)}
