"""What the documentation shows works: Python blocks run, commands have the options they use.

A block after `<!-- not run: REASON -->` is left out. A YAML or Python block whose first line is `#
NAME.yaml` or `# NAME.py` is the file of that name. In Python blocks, `EPOCHS = 3  # 1 in the tests`
is a constant with another value in the tests, and a comment after `print(...)`, on its line or the
next, that begins with a number or a bracket has the numbers that are printed.
 `EPOCHS = 3  # 1 in the tests`
is a constant with another value in the tests.
"""

from __future__ import annotations

import importlib
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from toolkit import build_model
from toolkit.cli.command import prepare
from toolkit.cli.plot import COMMAND as PLOT
from toolkit.common.registry import ARCHITECTURES, PLOTS, POSITIONS
from toolkit.config.command import Command
from toolkit.config.names import RESERVED_NAMES

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted(REPOSITORY.glob("*.md")),
    *sorted((REPOSITORY / "docs").glob("**/*.md")),
    *sorted((REPOSITORY / "examples").glob("**/*.md")),
]
FENCE = re.compile(
    r"(?P<note><!-- not run: [^\n]+ -->\n+)?```(?P<kind>\w*)\n(?P<text>.*?)^```", re.M | re.S
)

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
SIZES = {  # sentences, tables and logs that state how many parameters an architecture has
    "sentence": re.compile(r"`(\w+)`[^`]*?(\d[\d,]+) tokens it has\s(\d[\d,]+) parameters"),
    "table": re.compile(r"\|[^\n]* parameters with ([\d,]+) tokens \|\n\|[-|]+\n((?:\|.*\n)+)"),
    "log": re.compile(r"--vocab-size (\d+).*?--task (\w+).*?architecture  (\w+), (\S+) par", re.S),
}


class Block(NamedTuple):
    line: int
    kind: str
    text: str


@cache
def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page that are to be run, and its indented ones as shell."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(text.count("\n", 0, match.start("text")) + 1, match["kind"], match["text"])
        for match in FENCE.finditer(text)
        if not match["note"]
    ]
    unfenced = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(unfenced.splitlines(), 1):
        if line.startswith("    "):
            found.append(Block(number, "indented", line[4:] + "\n"))
    return found


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(REPOSITORY)) for page in pages]


WITH_PYTHON = [page for page in PAGES if any(b.kind == "python" for b in blocks(page))]
SLOW = {
    *("babylm.md", "fine-tuning.md", "hugging-face.md", "onnx.md", "prediction.md", "python.md"),
    *("question-answering.md", "tagging.md", "translation.md", "tour.md", "tutorial.md"),
    *("attention-variant.md", "fine-tune-and-predict.md"),
}
"""Pages whose Python takes more than 1.5 seconds."""


def slow_ones(pages: list[Path]) -> list[Any]:
    marks = [[pytest.mark.slow] * (page.name in SLOW) for page in pages]
    named = zip(pages, marks, names(pages), strict=True)
    return [pytest.param(page, marks=slow, id=name) for page, slow, name in named]


@pytest.fixture(autouse=True)
def own_components(tmp_path):
    """Remove the architectures of a page's files, its position terms and plots, after its test."""
    terms = {*POSITIONS.names()}
    yield
    PLOTS._entries.clear()
    for name in {*POSITIONS.names()} - terms:
        del POSITIONS._entries[name]
    for name in ARCHITECTURES.names():
        entry = ARCHITECTURES._entries.get(name)
        if entry and entry.source_location.startswith(str(tmp_path)):
            del ARCHITECTURES._entries[name]


@pytest.mark.parametrize("page", slow_ones(WITH_PYTHON))
def test_python_of_a_page_runs_and_prints_the_numbers_it_states(
    page, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    if any("transformers" in block.text for block in blocks(page) if block.kind == "python"):
        pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(tmp_path)
    scope = {"__name__": "__main__"}
    for block in blocks(page):
        if block.kind == "python" and not write_named_file(block, tmp_path):
            text = re.sub(r"^(\w+ = ).*# (.+) in the tests$", r"\1\2", block.text, flags=re.M)
            code = "\n" * (block.line - 1) + text
            exec(compile(code, str(page), "exec", dont_inherit=True), scope)
    text = page.read_text(encoding="utf-8")
    stated = re.findall(r"^print\(.*\)(?:  |\n)# ([\d[(](?:(?!, [a-z]).)*)", text, re.M)
    stated += re.findall(r"^\w+ +[\d,]+ parameters", text, re.M)
    printed = capsys.readouterr().out
    for numbers in map(NUMBER.findall, stated):
        assert set(numbers) <= set(NUMBER.findall(printed))


def write_named_file(block: Block, folder: Path) -> bool:
    """Write the file that the first line of a block names; whether there is a name."""
    name = re.match(r"# (\S+\.(?:yaml|py))\n", block.text)
    if name:
        path = folder / name[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text)
    return bool(name)


def commands(page: Path) -> list[list[str]]:
    """The words of every `toolkit-...` command a page shows, pipes and redirections cut off."""
    shell = [b.text for b in blocks(page) if b.kind in ("sh", "bash", "console", "indented")]
    text = re.sub(
        r"(?:srun )?torchrun .*? -m toolkit\.cli\.", "toolkit-", "".join(shell).replace("\\\n", " ")
    )
    lines = text.splitlines()
    found = re.compile(r"(?:^|\| *|&& *)\$? *(toolkit-[a-z]+ [^|>&]*)")
    return [shlex.split(m[1], comments=True) for line in lines for m in found.finditer(line)]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_code_of_a_page_fits_the_width_of_the_site(page):
    lines = [
        line
        for block in blocks(page)
        for line in block.text.splitlines()
        if block.kind in ("python", "sh") or re.match(r"\$ |toolkit-", line)
    ]
    assert not [line for line in lines if len(line) > 84]


COMMANDS = [(page, words) for page in PAGES for words in commands(page)]


@pytest.fixture
def example_files(tmp_path, monkeypatch):
    """A folder where a page's YAML files and the examples are what the page calls them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")

    def written(page):
        for block in blocks(page):
            write_named_file(block, tmp_path)

    return written


def modes(words: list[str]) -> Command:
    """The first mode of toolkit-generate that has all these options."""
    commands = importlib.import_module("toolkit.cli.generate").MODES
    known = [{option.flag for option in command.fixed_options()} for command in commands]
    flags = {word for word in words if word.startswith("--")}
    return next(command for command, each in zip(commands, known, strict=True) if flags <= each)


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=[f"{p.name}: {' '.join(w)[:60]}" for p, w in COMMANDS]
)
def test_commands_of_a_page_are_parsed(page, words, example_files):
    example_files(page)
    module = importlib.import_module(f"toolkit.cli.{words[0].removeprefix('toolkit-')}")
    command = module.COMMAND
    if words[0] == "toolkit-generate" and words[1] not in command.commands:
        command = modes(words[1:])  # the checkpoint that would tell the mode is not there
    found = prepare(command, words[1:])
    if {"--help", "--help-all", "--list", "--version", "--print-config"} & set(words):
        assert isinstance(found, str)
        return
    training = getattr(found[1].config, "training", None)
    ends = training and (training.max_update or training.max_epoch or training.max_words)
    assert training is None or ends, "the run has no end"


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_files_and_sections_that_a_page_names_exist(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target, section in re.findall(r"\]\(([^)#:]*)#?([^)#:]*)\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not section or section in anchors(linked), section
    roots = (page.parent, REPOSITORY, REPOSITORY / "toolkit", REPOSITORY / "examples")
    for path in re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_]+)+\.(?:py|sh|yaml))`", text):
        assert any((root / path).exists() for root in roots), path


def anchors(page: Path) -> set[str]:
    """The sections of a page, as links name them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def stated_sizes(text: str) -> list[tuple[str, str, str, str | None]]:
    """The architectures of a page, with the tokens, the parameters and the task it states."""
    found = [(*match, None) for match in SIZES["sentence"].findall(text)]
    for tokens, rows in SIZES["table"].findall(text):
        named = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|$", rows, re.M)
        found += [(name, tokens, parameters, None) for name, parameters in named]
    for tokens, task, name, parameters in SIZES["log"].findall(text):
        found.append((name, str(int(tokens) + 4), parameters, task))  # 4 special tokens
    return found


STATED = [(page, *it) for page in PAGES for it in stated_sizes(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("page", "name", "tokens", "parameters", "task"),
    STATED,
    ids=[f"{page.stem}: {name}, {tokens}" for page, name, tokens, *_ in STATED],
)
def test_architecture_has_as_many_parameters_as_a_page_states(page, name, tokens, parameters, task):
    with torch.device("meta"):
        model = build_model(name, vocabulary_size=int(tokens.replace(",", "")), task=task)
    assert f"{sum(p.numel() for p in model.parameters()):,}" == parameters, page


def test_dockerfile_of_the_containers_page_installs_as_the_script_does():
    page = REPOSITORY / "docs/start/containers.md"
    [text] = [block.text for block in blocks(page) if block.kind == "dockerfile"]
    script = re.search(r"^RUN (scripts/\S+) (\S+)$", text, re.M)
    torch = re.search(r"TOOLKIT_TORCH:-(\S+)}", (REPOSITORY / script[1]).read_text())[1]
    assert f"pip install --no-cache-dir {torch} " in text
    assert f"\n{script[2]} = [" in (REPOSITORY / "pyproject.toml").read_text()


def test_reserved_names_are_in_the_table_of_configuration():
    page = (REPOSITORY / "docs/guides/configuration.md").read_text(encoding="utf-8")
    for name, path in RESERVED_NAMES.items():
        assert f"| `--{name.replace('_', '-')}` | `{path}` |" in page


def test_every_kind_of_plot_has_its_keys_in_the_page_on_json():
    page = (REPOSITORY / "docs/reference/json-output.md").read_text(encoding="utf-8")
    for kind in PLOT.commands:
        assert f"| `{kind}` | `" in page
