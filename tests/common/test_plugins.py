import sys

import pytest

from toolkit.cli.command import execute
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.plugins import check_loaded, load_folder
from toolkit.common.registry import Registry
from toolkit.config.commands.train import TRAIN


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(plugins, "_loaded", {})


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "my plugins-2"
    (path / "deep").mkdir(parents=True)
    (path / "parts.py").write_text("VALUE = 7\n")
    (path / "main.py").write_text("from .parts import VALUE\nfrom .deep.inner import INNER\n")
    (path / "deep" / "__init__.py").write_text("")
    (path / "deep" / "inner.py").write_text("from ..parts import VALUE as INNER\n")
    return path


def module(plugin, name):
    return sys.modules[f"{plugin.module}.{name}"]


def test_load_folder_imports_a_folder_of_any_name_with_all_modules(folder):
    plugin = load_folder(str(folder))
    assert plugin.name == "my plugins-2"
    assert module(plugin, "main").INNER == 7
    assert module(plugin, "deep.inner").INNER == 7


def test_load_folder_imports_a_folder_once(folder, monkeypatch):
    one = load_folder(str(folder))
    monkeypatch.chdir(folder.parent)
    assert load_folder("my plugins-2") is one and plugins.list_loaded() == [one]


def test_plugin_digest_changes_only_with_the_code(folder):
    before = load_folder(str(folder)).sha256
    plugins._loaded.clear()
    (folder / "notes.txt").write_text("x")
    assert load_folder(str(folder)).sha256 == before
    plugins._loaded.clear()
    (folder / "parts.py").write_text("VALUE = 8\n")
    assert load_folder(str(folder)).sha256 != before


def test_missing_folder_or_folder_without_code_is_a_user_error(tmp_path):
    with pytest.raises(ToolkitError, match=r"--user-dir: no such folder: .*none"):
        load_folder(str(tmp_path / "none"))
    with pytest.raises(ToolkitError, match=r"--user-dir: no Python files in"):
        load_folder(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("__init__.py", "1 / 0\n", "__init__.py:1: ZeroDivisionError: division by zero."),
        ("main.py", "\nimport no_such\n", "main.py:2: ModuleNotFoundError: No module named 'no_"),
        ("deep/inner.py", "VALUE = (\n", "deep/inner.py:1: SyntaxError: "),
    ],
)
def test_error_in_a_plugin_is_one_line_with_its_place(folder, file, text, place, capsys):
    (folder / file).write_text(text)
    words = ["--user-dir", str(folder), "--print-config"]
    assert execute(TRAIN, words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{folder}/{place}" in line and plugins.list_loaded() == []
    assert execute(TRAIN, [*words, "--traceback"]) == 2
    assert "Traceback (most recent call last):" in capsys.readouterr().err.splitlines()[1:]
    (folder / file).write_text("VALUE = 7\nINNER = 7\n")
    assert load_folder(str(folder)) in plugins.list_loaded()


OLD_TASK = "from toolkit.tasks.task import Task\nclass Own(Task):\n    predictor = None\n"


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("from toolkit.tasks.predictor import Predictor", r"toolkit\.tasks\.predictions"),
        (OLD_TASK, "`predictor_class`"),
    ],
)
def test_old_names_of_the_toolkit_are_answered_with_the_new_ones(folder, text, new):
    (folder / "old.py").write_text(text)
    with pytest.raises(ToolkitError, match=f" is now {new}"):
        load_folder(str(folder))


def test_check_loaded_names_a_missing_plugin_and_its_option():
    needed = [{"name": "mine", "sha256": "0"}]
    expected = "run/x requires the plugin 'mine', which is not loaded. Pass its folder with --user"
    with pytest.raises(ToolkitError, match=expected):
        check_loaded(needed, "run/x")


def test_check_loaded_warns_about_a_changed_plugin(folder, caplog):
    plugin = load_folder(str(folder))
    check_loaded([{"name": plugin.name, "sha256": plugin.sha256}], "run/x")
    assert not caplog.messages
    check_loaded([{"name": plugin.name, "sha256": "0"}], "run/x")
    assert caplog.messages == ["run/x was made with another version of plugin 'my plugins-2'."]


def test_installed_plugins_are_loaded_for_an_unknown_name(tmp_path, monkeypatch):
    (tmp_path / "toolkit_test_plugin.py").write_text("LOADED = True\n")
    info = tmp_path / "some_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[toolkit.plugins]\nmine = toolkit_test_plugin\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ToolkitError, match=r"unknown thing 'x'"):
        Registry("thing", {})["x"]
    assert [(p.name, p.module) for p in plugins.list_loaded()] == [("mine", "toolkit_test_plugin")]
    assert sys.modules["toolkit_test_plugin"].LOADED
