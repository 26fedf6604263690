"""Rules of the house that a machine can hold: who imports whom, what is cheap, what is tested."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from toolkit.common.registry import POSITIONS, REGISTRIES
from toolkit.config.declared import list_options

KINDS = {**REGISTRIES, "position": POSITIONS}
REPOSITORY = Path(__file__).resolve().parents[1]
ROOT = REPOSITORY / "toolkit"
LEVELS = [
    {"common"},
    {"config"},
    {"distributed", "reporting", "metrics"},
    {"nn", "data", "optim"},
    {"models", "criteria"},
    {"generation"},
    {"checkpoints"},
    {"tasks"},
    {"training"},
    {"analysis", "huggingface"},
    {"api", "commands", "sweep", "conversion"},
    {"cli"},
]
LEVEL = {package: level for level, packages in enumerate(LEVELS) for package in packages}
FILES = sorted(ROOT.glob("**/*.py"))
COMMANDS = ["preprocess", "train", "validate", "predict", "generate"]
COMMANDS += ["inspect", "plot", "average", "convert"]


def module_of(file: Path) -> str:
    parts = file.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in FILES}


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports(file: Path) -> set[str]:
    """Every module that a file imports, inside functions too; names of our modules in full."""
    found = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= inner or {node.module or ""}
    return found


def test_modules_import_only_from_packages_to_their_left():
    for file in FILES:
        own = file.relative_to(ROOT).parts[0]
        if own in LEVEL:
            others = {m.split(".")[1] for m in imports(file) if m.startswith("toolkit.")} - {own}
            wrong = {other for other in others if LEVEL[other] >= LEVEL[own]}
            assert not wrong, f"{file}: {own} is not to the right of {wrong}"


DATA_LEVELS = [
    {"ragged", "raw_items", "text_files"},
    {"records"},
    {"dataset_folder"},
    {"tokenizers"},
    {"storage"},
    {"loading", "samples", "preprocessing"},
    {"formats"},
    {"preprocess"},
]


def test_packages_of_data_import_one_way():
    level = {name: number for number, names in enumerate(DATA_LEVELS) for name in names}
    for file in {*ROOT.glob("data/**/*.py")} - {ROOT / "data" / "__init__.py"}:
        own = file.relative_to(ROOT / "data").with_suffix("").parts[0]
        others = {m.split(".")[2] for m in imports(file) if m.startswith("toolkit.data.")} - {own}
        assert not {other for other in others if level[other] >= level[own]}, file


def test_packages_are_all_ordered():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(LEVEL)


def test_modules_have_no_import_circles():
    modules = MODULES.keys() - {"toolkit"}  # which imports its names when they are first used
    graph = {name: imports(MODULES[name]) & modules - {name} for name in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_common_and_config_never_import_torch():
    for file in (*ROOT.glob("common/**/*.py"), *ROOT.glob("config/**/*.py")):
        assert not {m for m in imports(file) if m.split(".")[0] == "torch"}, file


def test_only_consoles_that_report_closed_pipes_are_used():
    users = [name for name, file in MODULES.items() if "rich.console" in imports(file)]
    assert users == []


def test_importing_the_toolkit_loads_nothing_slow():
    code = "import sys, toolkit; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "omegaconf", "rich"} & set(ran.stdout.split())


def decorated() -> set[tuple[str, str, str]]:
    """(section, name, module) of every `@register_...("name", ...)` in the package."""
    found = set()
    for module, file in MODULES.items():
        for node in ast.walk(tree(file)):
            for call in getattr(node, "decorator_list", []):
                if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("register_"):
                    section = ast.unparse(call.func).removeprefix("register_")
                    found.add((section, ast.literal_eval(call.args[0]), module))
    return found


def test_table_of_built_ins_equals_the_decorators():
    known = [(s, name, b.module) for s, r in KINDS.items() for name, b in r.builtins.items()]
    assert decorated() == set(known)


def test_built_ins_can_all_be_looked_up():
    for registry in KINDS.values():
        assert [registry[name].name for name in registry.builtins] == list(registry.builtins)


def configs() -> dict[str, object]:
    """Every config class whose fields are options, by a name for the list of failures."""
    named = [importlib.import_module(f"toolkit.cli.{name}").COMMAND for name in COMMANDS]
    commands = [c for one in named for c in getattr(one, "commands", {"": one}).values()]
    found = {f"{c.name} {s}": k for c in commands for s, k in c.fixed_sections().items()}
    entries = [(s, registry[name]) for s, registry in KINDS.items() for name in registry.builtins]
    return {**found, **{f"{section} {e.name}": e.config for section, e in entries}}


def test_options_all_have_help():
    silent = [
        f"{n}: {o.name}" for n, c in configs().items() for o in list_options("", c) if not o.help
    ]
    assert not silent


def test_configs_are_all_frozen():
    classes = [c if isinstance(c, type) else type(c) for c in configs().values()]
    assert all(c.__dataclass_params__.frozen for c in classes)


MAX_FILES = 20
FOLDERS = sorted({file.parent for file in FILES})


def test_folders_have_at_most_twenty_files():
    assert not [folder for folder in FOLDERS if len([*folder.glob("*.py")]) > MAX_FILES]


def test_packages_with_long_modules_have_a_test_folder():
    for folder in FOLDERS:
        longest = max(len(f.read_text(encoding="utf-8").splitlines()) for f in folder.glob("*.py"))
        tests = REPOSITORY / "tests" / folder.relative_to(ROOT)
        assert longest <= 60 or any(tests.glob("test_*.py")), f"{tests} should test {folder}"


def test_files_and_functions_stay_short():
    for file in FILES:
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 450, file
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 50, f"{file}: {node.name} is long"


TORCH_FILES = ROOT / "conversion" / "files.py"
"""The one place with torch.load, which must be its weights-only loader, told so literally."""
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def test_nothing_is_unpickled_evaluated_or_swallowed():
    for file in FILES:
        assert not {module.split(".")[0] for module in imports(file)} & UNPICKLERS, file
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Call):
                check_call(file, node)
            if isinstance(node, ast.ExceptHandler):
                swallowed = [ast.unparse(line) for line in node.body] == ["pass"]
                everything = node.type is None or ast.unparse(node.type) == "Exception"
                assert node.type is not None and not (swallowed and everything), file


def check_call(file: Path, node: ast.Call) -> None:
    call = ast.unparse(node.func)
    assert call not in {"eval", "exec", "yaml.unsafe_load", "os.system"}, file
    weights_only = any(ast.unparse(k) == "weights_only=True" for k in node.keywords)
    assert call != "torch.load" or (file == TORCH_FILES and weights_only), file
    assert not any(k.arg == "allow_pickle" for k in node.keywords), f"{file}: {call} may unpickle"


def test_map_of_the_packages_has_each_in_its_layer():
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|.*\| (.*) \|$", page, re.M)
    assert {name: int(layer) - 1 for layer, name, _ in rows} == LEVEL
    files = [(name, file) for _, name, last in rows for file in re.findall(r"`(\S+)`", last)]
    assert not [(name, file) for name, file in files if not (ROOT / name / file).exists()]
