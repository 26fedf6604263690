"""Notebooks are those of their pages, executed, and the pages show their outputs."""

from __future__ import annotations

import json

import pytest

from tools.notebooks.cells import PAGES, REPOSITORY, notebook_cells, parse_page
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
    assert kinds <= {"stream", "execute_result"}


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_the_outputs_of_its_notebook(name):
    page = (REPOSITORY / PAGES[name]).read_text(encoding="utf-8")
    assert write_outputs(page, code_cells(name)) == page


@pytest.mark.parametrize("name", PAGES)
def test_notebook_is_small_and_has_no_local_paths(name):
    path = REPOSITORY / f"examples/notebooks/{name}.ipynb"
    assert path.stat().st_size < MAX_BYTES
    assert str(REPOSITORY) not in path.read_text(encoding="utf-8")


PAGE = """# A page

```python
# plugin/one.py
ONE = 1
```

```sh
ls -l
```

```text
...
old
```

![A plot](../images/x/plot.png)
"""


def test_blocks_of_a_page_become_cells():
    cells = parse_page(PAGE)
    assert [cell.kind for cell in cells] == ["prose", "python", "sh", "text", "image"]
    assert [cell.source for cell in cells if cell.is_code] == [
        "%%writefile plugin/one.py\nONE = 1",
        "%%bash\nls -l",
        'from IPython.display import Image\n\nImage("plot.png")',
    ]


def test_output_is_written_into_the_page_shortened_to_its_last_lines():
    listed = {"output_type": "stream", "text": ["one\n", "\x1b[1mtwo\x1b[0m\n"]}
    empty = {"outputs": []}
    page = write_outputs(PAGE, [empty, {"outputs": [listed]}, empty])
    assert page == PAGE.replace("old", "two")
