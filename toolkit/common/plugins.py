"""Code of the user's own: folders given with --user-dir, and installed `toolkit.plugins`.

A checkpoint remembers the names and digests of the plugins it was trained with, never code or
paths to run.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError

PACKAGE, GROUP = "toolkit_plugins", "toolkit.plugins"
IGNORED_PREFIXES = ("test_", "conftest", "setup", "__main__")

log = logging.getLogger(__name__)


class Plugin(NamedTuple):
    name: str
    """Name of the folder or of the entry point."""
    sha256: str
    """Digest of its Python files."""
    module: str


_loaded: dict[str, Plugin] = {}


def list_loaded() -> list[Plugin]:
    """The plugins of this process, in the order they came."""
    return list(_loaded.values())


def load_folder(folder: str) -> Plugin:
    """Import a folder of Python files, whatever its name, with the packages in it.

    It becomes the package toolkit_plugins.<name>_<digest of its path>, so that two folders of one
    name do not meet; its files import each other relatively (`from .layers import Gate`).
    """
    path = Path(folder).resolve()
    if not path.is_dir():
        raise ToolkitError(f"--user-dir must name a folder, but {folder} is none.")
    files = list_python_files(path)
    if not files:
        raise ToolkitError(f"--user-dir must name a folder of Python files, but {folder} has none.")
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    module = f"{PACKAGE}.{re.sub(r'[^0-9A-Za-z]', '_', path.name)}_{digest}"
    if module not in _loaded:
        make_package(PACKAGE, None)
        import_package(module, path)
        _loaded[module] = Plugin(path.name, hash_files(files, path), module)
    return _loaded[module]


def load_installed() -> None:
    """Import what installed distributions offer as entry points of the group toolkit.plugins."""
    from importlib.metadata import entry_points  # here, for it slows --help down

    for point in entry_points(group=GROUP):
        module = importlib.import_module(point.module)
        if module.__name__ not in _loaded:
            file = Path(str(module.__file__))
            files = list_python_files(file.parent) if file.name == "__init__.py" else [file]
            digest = hash_files(files, file.parent)
            _loaded[module.__name__] = Plugin(point.name, digest, module.__name__)


def import_package(name: str, folder: Path) -> None:
    """Import a folder as a package of that name, then each file and each package in it."""
    make_package(name, folder)
    for file in list_direct_files(folder):
        if file.stem != "__init__":
            importlib.import_module(f"{name}.{file.stem}")
    for package in list_subpackages(folder):
        import_package(f"{name}.{package.name}", package)


def make_package(name: str, folder: Path | None) -> None:
    """Put a package into sys.modules and run its __init__.py where there is one."""
    if name in sys.modules:
        return
    places = [str(folder)] if folder else []
    initial = folder / "__init__.py" if folder else None
    if initial is not None and initial.exists():
        spec = importlib.util.spec_from_file_location(
            name, initial, submodule_search_locations=places
        )
    else:
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = places
    assert spec is not None, "a Python file and a package without one have specifications"
    sys.modules[name] = importlib.util.module_from_spec(spec)
    if spec.loader is not None:
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise


def list_python_files(folder: Path) -> list[Path]:
    """The files of a plugin: those in its folder and in the packages below, tests left out."""
    below = [file for package in list_subpackages(folder) for file in list_python_files(package)]
    return list_direct_files(folder) + below


def list_direct_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.py"))
    return [f for f in files if "." not in f.stem and not f.stem.startswith(IGNORED_PREFIXES)]


def list_subpackages(folder: Path) -> list[Path]:
    return [initial.parent for initial in sorted(folder.glob("*/__init__.py"))]


def hash_files(files: Iterable[Path], folder: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        text = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()


def describe_plugins(builders: Iterable[Callable[..., object]]) -> list[dict[str, str]]:
    """Names and digests of the plugins that these builders come from, for a checkpoint."""
    modules = {builder.__module__ for builder in builders}
    used = [p for p in list_loaded() if any(f"{m}.".startswith(f"{p.module}.") for m in modules)]
    return [{"name": p.name, "sha256": p.sha256} for p in used]


def check_loaded(needed: Iterable[Mapping[str, str]], what: str) -> None:
    """Refuse to go on without the plugins that a checkpoint was made with; changed ones are told.

    `what` names the checkpoint in the message.
    """
    for plugin in needed:
        if plugin["name"] not in {p.name for p in list_loaded()}:
            load_installed()
        digests = [p.sha256 for p in list_loaded() if p.name == plugin["name"]]
        if not digests:
            raise ToolkitError(
                f"{what} must be loaded together with the plugin {plugin['name']!r} it was made "
                "with, but that is not loaded. Pass its folder with --user-dir."
            )
        if plugin["sha256"] not in digests:
            log.warning("%s was made with another version of plugin %r.", what, plugin["name"])
