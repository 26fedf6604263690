"""Executes the pages of docs/start as notebooks.

    python -m tools.notebooks [NAME...]             # all of them without a name
    python -m tools.notebooks --prose [NAME...]     # only the prose has changed: keep the outputs

Writes examples/notebooks/NAME.ipynb, and the outputs and pictures into the page. Needs the extras
`docs` and `plot`. Takes up to ten minutes per notebook on two CPU cores.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.notebooks.cells import PAGES, REPOSITORY, notebook_cells
from tools.notebooks.outputs import printed, write_outputs


def build(name: str, page: str) -> nbformat.NotebookNode:
    """The notebook of a page, without outputs."""
    cells = [
        (new_code_cell if cell.is_code else new_markdown_cell)(cell.source, id=f"{name}-{number}")
        for number, cell in enumerate(notebook_cells(page))
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run all cells in a folder, with the commands and the toolkit of this interpreter."""
    path = [str(Path(sys.executable).parent), os.environ["PATH"]]
    os.environ.update(PATH=os.pathsep.join(path), PYTHONPATH=str(REPOSITORY))
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=None, record_timing=False, resources=resources)
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)


def clean(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Replace outputs of several writes by one, without control sequences and local paths."""
    notebook.metadata.pop("language_info", None)
    for cell in code_cells(notebook):
        images = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        text = printed([output for output in cell.outputs if output not in images])
        text = text.replace(f"{folder}/", "").replace(str(REPOSITORY), ".")
        merged = [nbformat.v4.new_output("stream", text=text + "\n")] if text else []
        cell.outputs = [*merged, *images]


def copy_images(page: str, folder: Path) -> None:
    for cell in notebook_cells(page):
        if cell.kind == "image":
            target = (REPOSITORY / page).parent / cell.text
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / target.name, target)


def keep_outputs(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Copy the outputs of the notebook in a file, which has the same code."""
    old = code_cells(nbformat.read(path, as_version=4))
    for cell, executed in zip(code_cells(notebook), old, strict=True):
        assert cell.source == executed.source, "the code has changed: run without --prose"
        cell.update(outputs=executed.outputs, execution_count=executed.execution_count)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def update(name: str, *, only_prose: bool) -> None:
    """Write the notebook of a page, and its outputs into the page."""
    page, path = REPOSITORY / PAGES[name], REPOSITORY / "examples" / "notebooks" / f"{name}.ipynb"
    notebook = build(name, PAGES[name])
    if only_prose:
        keep_outputs(notebook, path)
    else:
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, Path(folder))
            clean(notebook, Path(folder))
            copy_images(PAGES[name], Path(folder))
    nbformat.write(notebook, path)
    text = write_outputs(page.read_text(encoding="utf-8"), code_cells(notebook))
    page.write_text(text, encoding="utf-8")


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--prose"]
    for name in names or PAGES:
        update(name, only_prose="--prose" in sys.argv)


if __name__ == "__main__":
    main()
