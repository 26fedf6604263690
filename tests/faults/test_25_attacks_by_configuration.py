"""Fault 25: configurations that try to read secrets, run code or exhaust memory.

Each is tried from a YAML file, from flags and from a checkpoint's config.json; what a data folder
says about itself has no field that would be looked up or called.
"""

from __future__ import annotations

import json

import pytest

from tests.helpers.signed_files import sign_files
from toolkit import load_checkpoint
from toolkit.cli.train import COMMAND
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.load import load

NAMED = {"arch": "composite_bert_tiny", "task": "mlm"}
FLAGS = [f"--{section}={name}" for section, name in NAMED.items()]
SECRETS = ["${oc.env:TOOLKIT_SECRET}", "${env:TOOLKIT_SECRET}", "x${data.dirs}", "???"]
SECRETS += ["${oc.decode:${oc.env:TOOLKIT_SECRET}}", "${oc.create:{}}"]
PYTHON = ["object/apply:os.system", "object/new:os.system", "name:os.system", "module:os", "tuple"]


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("TOOLKIT_SECRET", "hunter2")


@pytest.fixture
def yaml(tmp_path):
    """The error of a YAML file."""

    def read(text):
        named = "".join(f"{s}: {n}\n" for s, n in NAMED.items() if not text.startswith(s))
        (tmp_path / "run.yaml").write_text(text + named)
        with pytest.raises(ToolkitError) as caught:
            load(["--config", str(tmp_path / "run.yaml")], COMMAND)
        return str(caught.value)

    return read


@pytest.fixture
def saved(trained):
    """The error of a checkpoint whose configuration was changed, with correct digests."""
    folder = (trained / "checkpoint_last").resolve()

    def read(change):
        found = json_files.loads((folder / "config.json").read_text())
        change(found)
        (folder / "config.json").write_text(json_files.dumps(found))
        sign_files(folder, "config.json")
        with pytest.raises(ToolkitError) as caught:
            load_checkpoint(folder)
        return str(caught.value)

    return read


@pytest.mark.parametrize("value", SECRETS)
def test_configuration_interpolates_nothing(yaml, saved, value):
    errors = [yaml(f"checkpoint:\n  save_dir: '{value}'\n"), yaml(f"arch: '{value}'\n")]
    for flag in ("--save-dir", "--arch", "--lr", "--data.dirs"):
        with pytest.raises(ToolkitError) as caught:
            load([*FLAGS, flag, value], COMMAND)
        errors.append(str(caught.value))
    errors.append(saved(lambda found: found["run"]["checkpoint"].update(save_dir=value)))
    errors.append(saved(lambda found: found["run"]["arch"].update(name=value)))
    assert not any("hunter2" in text for text in errors)
    assert all("must be a plain value, but is" in text for text in errors)


def test_target_to_call_is_an_unknown_option(yaml, saved, tmp_path):
    call = {"_target_": "os.system", "_args_": [f"touch {tmp_path}/marker"]}
    for section in ("arch", "task", "optimizer", "data", "training"):
        name = {**NAMED, "optimizer": "adamw"}.get(section)
        name = f"  name: {name}\n" if name else ""
        assert "_target_" in yaml(f"{section}:\n{name}  _target_: os.system\n")
    for flag in ("--_target_", "--arch._target_", "--data._target_"):
        with pytest.raises(ToolkitError, match="no option is called"):
            load([*FLAGS, flag, "os.system"], COMMAND)
    assert "_target_" in saved(lambda found: found["run"]["task"].update(call))
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("tag", PYTHON)
def test_yaml_tags_of_python_objects_are_rejected(yaml, tmp_path, tag):
    argument = f"['touch {tmp_path}/marker']" if "object" in tag or tag == "tuple" else "''"
    error = yaml(f"arch: !!python/{tag} {argument}\n")
    assert "could not determine a constructor for the tag" in error and "line 1" in error
    assert not (tmp_path / "marker").exists()


def test_yaml_alias_bomb_is_rejected_at_its_first_alias(yaml):
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert "line 2: aliases (*name) are not read" in yaml("\n".join(lines))


@pytest.mark.parametrize("name", ["os.system", "toolkit.models.bert:bert", "../bert", "__main__"])
def test_import_path_is_no_component_name(yaml, saved, name):
    for section in ("arch", "task", "criterion", "optimizer", "lr_scheduler"):
        assert f"'{name}'. " in yaml(f"{section}: '{name}'\n")
        change = {section: {"name": name}}
        assert f"'{name}'. " in saved(lambda found, c=change: found["run"].update(c))


def test_plugins_are_never_loaded_from_a_checkpoint(saved, tmp_path):
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "code.py").write_text(f"open('{tmp_path}/marker', 'w')")
    for name in (str(tmp_path / "evil"), "../evil", "os", "pytest"):
        plugin = {"name": name, "sha256": "0" * 64, "path": str(tmp_path / "evil"), "module": "os"}
        error = saved(lambda found, plugin=plugin: found.update(plugins=[plugin]))
        assert f"requires the plugin {name!r}, which is not loaded" in error
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("kind", ["os.system", "${oc.env:TOOLKIT_SECRET}", None, [], {}, 3])
def test_unknown_kind_of_tokenizer_is_rejected(trained, kind):
    folder = (trained / "checkpoint_last").resolve()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "kind": kind}))
    sign_files(folder, "tokenizer_config.json")
    with pytest.raises(
        ToolkitError, match=r"kind in .*tokenizer_config\.json must be one of"
    ) as caught:
        load_checkpoint(folder)
    assert "hunter2" not in str(caught.value)
