import json
import os
from datetime import datetime

import pytest
import torch

import toolkit
from toolkit.checkpoints.load import describe_plugins, read_starts
from toolkit.common import plugins
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import compose, load
from toolkit.config.serialize import to_yaml_file
from toolkit.data.storage.data_folder import DataFolder
from toolkit.training.run import run


def save(config, folder):
    path = folder / "config.yaml"
    path.write_text(to_yaml_file(config), "utf-8")
    return ["--config", str(path)]


def test_config_file_of_a_run_repeats_it_in_another_folder(config, tmp_path, end_of):
    first = config(max_update=3)
    run(first)
    words = ["--config", str(tmp_path / "run" / "config.yaml")]
    assert load(words, TRAIN).config == first
    run(load([*words, "--save-dir", str(tmp_path / "again")], TRAIN).config)
    assert end_of(tmp_path / "again") == end_of(tmp_path / "run")


def test_record_tells_command_code_packages_machine_and_data(config, tmp_path, data):
    run(config(max_update=1), command="toolkit-train data --lr 1e-3")
    (start,) = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert start["command"] == "toolkit-train data --lr 1e-3"
    assert start["working_directory"] == os.getcwd()
    assert start["toolkit"]["version"] == toolkit.__version__
    assert start["packages"]["torch"] == torch.__version__ and "numpy" in start["packages"]
    assert start["cores"] == os.cpu_count() and start["cpu"] and start["gpus"] == []
    assert start["data"] == [
        {"folder": str(data), "fingerprint": DataFolder.open(data).fingerprint}
    ]
    assert (start["ranks"], start["update"], start["resumed_from"]) == (1, 0, None)
    assert datetime.fromisoformat(start["time"]).tzinfo


def test_record_has_no_environment_variable_but_four(config, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "hidden-1")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    run(config(max_update=1))
    assert read_starts(tmp_path / "run")[0]["variables"]["SLURM_JOB_ID"] == "4711"
    assert "hidden-1" not in (tmp_path / "run" / "environment.json").read_text()


def test_each_start_is_added_with_the_options_that_changed(config, tmp_path):
    run(config(max_update=2))
    run(config(max_update=4, lr=0.5))
    first, second = read_starts(tmp_path / "run")
    assert first["changed_options"] == {} and (first["update"], second["update"]) == (0, 2)
    assert second["resumed_from"] == str(tmp_path / "run" / "checkpoint_e1_u2")
    assert second["changed_options"] == {
        "optimizer.lr": [0.0003, 0.5],
        "training.max_update": [2, 4],
    }
    assert "lr: 0.5\n" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.slow
def test_resume_reports_another_environment_once(config, tmp_path, capfd):
    run(config(max_update=1))
    record = tmp_path / "run" / "environment.json"
    record.write_text(record.read_text().replace(torch.__version__, "1.0"))
    capfd.readouterr()
    run(config(max_update=2))
    expected = (
        "environment that differs from the previous start:\n"
        f"  packages.torch was '1.0' and is now '{torch.__version__}'\n"
    )
    assert expected in capfd.readouterr().err
    run(config(max_update=2))
    assert "environment that differs" not in capfd.readouterr().err


def test_damaged_record_is_reported_and_left_alone(config, tmp_path, capfd):
    content = "{"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "environment.json").write_text(content)
    assert run(config(max_update=1)).updates == 1
    assert "the start of this run was not recorded: " in capfd.readouterr().err
    assert (tmp_path / "run" / "environment.json").read_text() == content


def test_record_names_the_plugins_of_the_run(repository, monkeypatch):
    monkeypatch.setattr(plugins, "_loaded", dict(plugins._loaded))
    folder = repository / "examples" / "plugin"
    plugin = plugins.load_folder(str(folder))
    (found,) = describe_plugins(compose({"arch": "distance_bert", "task": "mlm"}))
    assert (
        found.items() >= {"name": "plugin", "sha256": plugin.sha256, "folder": str(folder)}.items()
    )
    assert "commit" in found or found["no_commit"]
    assert describe_plugins(compose({"arch": "bert_tiny", "task": "mlm"})) == []
