import importlib
import importlib.util

import pytest

from toolkit.common.builtins import Builtin
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS, Registry


def thing() -> None:
    """What a thing is.

    More about it.
    """


def other() -> None: ...


def module_from(file, name):
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_unknown_name_suggests_the_nearest_one():
    expected = "unknown architecture 'composit_bert'. Did you mean 'composite_bert'?"
    with pytest.raises(ToolkitError, match=expected):
        COMPONENTS["arch"]["composit_bert"]
    with pytest.raises(ToolkitError, match=r"Pass its folder with --user-dir if it is your own"):
        COMPONENTS["arch"]["something else"]


def test_same_name_from_two_files_is_an_error_that_names_both(tmp_path):
    registry = Registry("thing", {})
    builds = []
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text("def build(): ...\n")
        builds.append(module_from(tmp_path / f"{name}.py", name).build)
    registry.register("a", 0)(builds[0])
    expected = r"'a' is registered by .*first.py:1 and by .*second.py:1. Rename one of the two"
    with pytest.raises(ToolkitError, match=expected):
        registry.register("a", 0)(builds[1])


def test_same_name_for_two_functions_of_a_file_is_an_error():
    registry = Registry("thing", {})
    registry.register("a", 0)(thing)
    with pytest.raises(ToolkitError, match=r"test_registry.py:\d+ and by .*test_registry.py:\d+"):
        registry.register("a", 0)(other)


@pytest.mark.parametrize(
    "text",
    [
        "for i in range(2): register('a', 0)(lambda: i)",
        "for i in range(2):\n    @register('a', 0)\n    def part(): return i",
        "@register('a', 0)\ndef part(): ...\n@register('a', 0)\ndef part(): ...",
    ],
)
def test_same_name_for_two_definitions_of_a_module_is_an_error(tmp_path, monkeypatch, text):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.register", Registry("thing", {}).register, raising=False)
    (tmp_path / "own_part.py").write_text(text)
    expected = r"'a' is registered by .*own_part.py:\d and by .*own_part.py:\d. Rename"
    with pytest.raises(ToolkitError, match=expected):
        importlib.import_module("own_part")


def test_module_that_is_loaded_again_replaces_its_components(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("thing", {})
    monkeypatch.setattr("builtins.register", registry.register, raising=False)
    file = tmp_path / "own_again.py"
    file.write_text("@register('a', 0)\ndef part(): ...\n")
    module = importlib.import_module("own_again")
    file.write_text("import os\n\n@register('a', 1)\ndef part(): ...\n")
    part = importlib.reload(module).part
    assert registry["a"].factory is part and registry["a"].config == 1


def test_name_of_a_built_in_is_reserved_before_its_import():
    registry = Registry("thing", {"a": Builtin("toolkit.some.module", "")})
    with pytest.raises(ToolkitError, match=r"'a' is registered by .*toolkit/some/module.py and by"):
        registry.register("a", 0)(thing)
