"""Plugins: folders of user code (--user-dir) and installed entry points of `toolkit.plugins`.

A checkpoint stores the names and digests of the plugins it was trained with, never code or paths.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple, TypedDict

from toolkit.common.errors import ToolkitError, first_line
from toolkit.common.json_files import sha256

PACKAGE, GROUP = "toolkit_plugins", "toolkit.plugins"
IGNORED_PREFIXES = ("test_", "conftest", "setup", "__main__")

log = logging.getLogger(__name__)


class Plugin(NamedTuple):
    """A loaded plugin: a folder of user code or an installed package."""

    name: str
    """Name of the folder or of the entry point."""
    sha256: str
    """Digest of its Python files."""
    module: str
    folder: Path
    """Folder of its files."""
    distribution: str = ""
    """Name and version of the installed package that provides it; empty for a folder."""


class PluginRecord(TypedDict):
    """A plugin that a checkpoint was made with."""

    name: str
    sha256: str


_loaded: dict[str, Plugin] = {}


def list_loaded() -> list[Plugin]:
    """The plugins of this process, in the order they were loaded."""
    return list(_loaded.values())


def load_folder(folder: str) -> Plugin:
    """Import a folder of Python files, whatever its name, with the packages in it.

    It becomes the package toolkit_plugins.<name>_<digest of its path>, so that two folders of the
    same name do not collide; its files import each other relatively (`from .layers import Gate`).
    """
    path = Path(os.path.realpath(folder))
    if not path.is_dir():
        raise ToolkitError(f"--user-dir: no such folder: {folder}.")
    if not (files := list_python_files(path)):
        raise ToolkitError(f"--user-dir: no Python files in {folder}.")
    digest = sha256(str(path))[:8]
    module = f"{PACKAGE}.{re.sub(r'[^0-9A-Za-z]', '_', path.name)}_{digest}"
    if module not in _loaded:
        root = ModuleSpec(PACKAGE, None, is_package=True)
        sys.modules.setdefault(PACKAGE, importlib.util.module_from_spec(root))
        with explain_errors(path):
            make_package(module, path)
            for file in files:
                parts = file.relative_to(path).with_suffix("").parts
                importlib.import_module(".".join((module, *parts)).removesuffix(".__init__"))
        _loaded[module] = Plugin(path.name, hash_files(files, path), module, path)
    return _loaded[module]


MOVED = {
    "toolkit.tasks.predictor": "toolkit.tasks.predictions",
    "toolkit.tasks.token_metrics": "toolkit.tasks.task",
    "toolkit.tasks.encoder_factory": "toolkit.tasks.task",
    "toolkit.tasks.pretraining.masked_examples": "toolkit.tasks.pretraining.mlm",
    "toolkit.tasks.pretraining.masking_config": "toolkit.tasks.pretraining.mlm",
    "ItemBatches": "toolkit.tasks.predictions.Results",
    "PredictionCollector": "toolkit.tasks.predictions.Results",
    "MaskedBatch": "toolkit.tasks.examples.TargetBatch",
    "TextTask": "toolkit.tasks.task.Task with encode_items = encode_texts",
}
"""Name that plugins may import -> what it is now."""


@contextmanager
def explain_errors(folder: Path) -> Iterator[None]:
    """Turn an error in a plugin into one line: its file and line, or the new name of an import."""
    try:
        yield
    except ToolkitError:
        raise
    except Exception as error:
        for old, new in MOVED.items():
            if isinstance(error, ImportError) and repr(old) in str(error):
                raise ToolkitError(
                    f"{folder} imports {old}, which is now {new}. Change the plugin, as "
                    f"docs/guides/extending.md describes."
                ) from error
        places = [(it.filename, it.lineno) for it in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            places.append((error.filename or "", error.lineno))
        own = [it for it in places if Path(it[0]).is_relative_to(folder)] or places[-1:]
        file, line = own[-1]
        raise ToolkitError(
            f"{file}:{line}: {type(error).__name__}: {first_line(error)}. Correct the plugin; "
            f"--traceback prints where it was imported."
        ) from error


def load_installed() -> None:
    """Import the entry points of the group toolkit.plugins of installed distributions."""
    from importlib.metadata import entry_points  # slow to import, and --help does not need it

    for point in entry_points(group=GROUP):
        with explain_errors(Path(point.module)):
            module = importlib.import_module(point.module)
        if module.__name__ not in _loaded:
            file = Path(str(module.__file__))
            files = list_python_files(file.parent) if file.name == "__init__.py" else [file]
            digest = hash_files(files, file.parent)
            package = f"{point.dist.name} {point.dist.version}" if point.dist else ""
            _loaded[module.__name__] = Plugin(
                point.name, digest, module.__name__, file.parent, package
            )


def make_package(name: str, folder: Path) -> None:
    """Put a package into sys.modules and run its __init__.py if there is one."""
    initial = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        name, initial, submodule_search_locations=[str(folder)]
    )
    assert spec and spec.loader, "Python files have a loader"
    sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        if initial.is_file():
            spec.loader.exec_module(sys.modules[name])
    except BaseException:
        del sys.modules[name]
        raise


def list_python_files(folder: Path) -> list[Path]:
    """The files of a plugin without tests: those in its folder, then those in its packages."""
    files = [
        file
        for file in sorted(folder.glob("*.py"))
        if file.is_file() and "." not in file.stem and not file.stem.startswith(IGNORED_PREFIXES)
    ]
    packages = [file.parent for file in sorted(folder.glob("*/__init__.py")) if file.is_file()]
    return files + [file for package in packages for file in list_python_files(package)]


def hash_files(files: Iterable[Path], folder: Path) -> str:
    """Digest of the names and contents of files."""
    content = b""
    for file in files:
        text = file.read_bytes()
        content += f"{file.relative_to(folder).as_posix()}\0{len(text)}\0".encode() + text
    return sha256(content)


def find_plugins(builders: Iterable[Callable[..., object]]) -> list[Plugin]:
    """The loaded plugins that these builders come from."""
    modules = {builder.__module__ for builder in builders}
    return [p for p in list_loaded() if any(f"{m}.".startswith(f"{p.module}.") for m in modules)]


def check_loaded(needed: Iterable[PluginRecord], what: str) -> None:
    """Raise if a plugin that a checkpoint, `what`, was made with is not loaded; warn of changes."""
    for plugin in needed:
        if plugin["name"] not in {p.name for p in list_loaded()}:
            load_installed()
        if not (digests := [p.sha256 for p in list_loaded() if p.name == plugin["name"]]):
            raise ToolkitError(
                f"{what} requires the plugin {plugin['name']!r}, which is not loaded. Pass its "
                "folder with --user-dir."
            )
        if plugin["sha256"] not in digests:
            log.warning("%s was made with another version of plugin %r.", what, plugin["name"])
