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


def test_name_of_a_built_in_is_reserved_before_its_import():
    registry = Registry("thing", {"a": Builtin("toolkit.some.module", "")})
    with pytest.raises(ToolkitError, match=r"'a' is registered by .*toolkit/some/module.py and by"):
        registry.register("a", 0)(thing)
