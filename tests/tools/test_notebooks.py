"""Notebooks are those of their pages, executed, and the pages show their outputs."""

from __future__ import annotations

import importlib
import json
import re

import pytest

from tools.notebooks.cells import PAGES, REPOSITORY, Cell, notebook_cells
from tools.notebooks.outputs import write_outputs

MAX_BYTES = 400_000


def read_notebook(name: str) -> dict:
    """A notebook, its sources and outputs as strings."""
    notebook = json.loads((REPOSITORY / f"examples/notebooks/{name}.ipynb").read_text("utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def code_cells(name: str) -> list[dict]:
    return [cell for cell in read_notebook(name)["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", PAGES)
def test_notebook_has_the_cells_of_its_page(name):
    cells = [(cell["cell_type"], cell["source"]) for cell in read_notebook(name)["cells"]]
    expected = notebook_cells(PAGES[name])
    assert cells == [("code" if cell.is_code else "markdown", cell.source) for cell in expected]


@pytest.mark.parametrize("name", PAGES)
def test_notebook_was_executed_from_top_to_bottom_without_errors(name):
    cells = code_cells(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "execute_result", "display_data"}


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_the_outputs_of_its_notebook(name):
    page = (REPOSITORY / PAGES[name]).read_text(encoding="utf-8")
    assert write_outputs(page, code_cells(name)) == page


@pytest.mark.parametrize("name", PAGES)
def test_notebook_is_small_and_has_no_local_paths(name):
    path = REPOSITORY / f"examples/notebooks/{name}.ipynb"
    assert path.stat().st_size < MAX_BYTES
    assert str(REPOSITORY) not in path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_notebook_runs_in_a_kernel_without_text_of_bars(name, tmp_path, monkeypatch):
    """A kernel sets FORCE_COLOR, for the commands of its cells, too."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = importlib.import_module("tools.notebooks.__main__")
    monkeypatch.setattr(notebook, "notebook_cells", shortened_cells)
    book = notebook.build(name, PAGES[name])
    notebook.execute(book, tmp_path)
    outputs = [it for cell in book.cells if cell.cell_type == "code" for it in cell.outputs]
    text = "".join(it["text"] for it in outputs if it["output_type"] == "stream")
    shown = [it["data"] for it in outputs if it["output_type"] == "display_data"]
    assert nbclient and len(text) < 30_000 and "\x1b" not in text and "\r" not in text
    if name == "attention-variant":
        assert "\nlog_decay_symmetric_tiny" in text and "; low, high: 95% interval" in text
        costs = re.compile(r"^(\w+) +\S+ +(\d+) +(\d+) +\S+ +\S+$", re.M)  # parameters, FLOPs
        stated = costs.findall((REPOSITORY / PAGES[name]).read_text("utf-8"))
        assert len(stated) == 3 and costs.findall(text) == stated
    else:  # toolkit.train in the kernel
        assert any("loss" in it["text/plain"] for it in shown if "text/html" in it)
        assert any("image/png" in it for it in shown)


def shortened_cells(page: str) -> list[Cell]:
    """The cells with the values for tests, and short runs in shells."""
    pattern, runs = r"^(\w+ = ).*# (.+) in the tests$", r"--max-update \d+"
    return [
        cell._replace(
            text=re.sub(runs, "--max-update 4", re.sub(pattern, r"\1\2", cell.text, flags=re.M))
        )
        for cell in notebook_cells(page)
    ]
