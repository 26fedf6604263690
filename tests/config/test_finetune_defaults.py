import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import load, resolve
from toolkit.config.serialize import print_config

WORDS = ["data", "--task", "mlm", "--finetune-from"]


@pytest.fixture
def checkpoint(tmp_path):
    arch = {"name": "bert_tiny", "layers": 5, "max_positions": 300, "embedding_width": None}
    (tmp_path / "config.json").write_text(json.dumps({"run": {"arch": arch}}))
    (tmp_path / "manifest.json").write_text("{}")
    return str(tmp_path)


def test_finetune_from_sets_the_architecture(checkpoint):
    arch = load([*WORDS, checkpoint], TRAIN).config.arch
    assert (arch.name, arch.config.layers, arch.config.max_positions) == ("bert_tiny", 5, 300)
    assert arch.config.embedding_width is None and arch.config.width == 128


def test_flags_override_the_architecture_of_the_checkpoint(checkpoint):
    arch = load([*WORDS, checkpoint, "--arch.layers", "3", "--dropout", "0"], TRAIN).config.arch
    assert (arch.config.layers, arch.config.dropout, arch.config.max_positions) == (3, 0.0, 300)


def test_named_architecture_ignores_the_checkpoint(checkpoint):
    arch = load([*WORDS, checkpoint, "--arch", "bert_small"], TRAIN).config.arch
    assert (arch.name, arch.config.layers, arch.config.max_positions) == ("bert_small", 12, 128)


def test_finetune_from_may_come_from_a_file_and_name_a_save_folder(checkpoint, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "checkpoint_best").symlink_to(checkpoint)
    file = tmp_path / "run.yaml"
    file.write_text(f"task: mlm\ncheckpoint: {{finetune_from: {run}}}\n")
    loaded = load(["data", "--config", str(file)], TRAIN)
    assert loaded.config.arch.config.layers == 5


def test_origin_of_the_architecture_is_printed(checkpoint):
    text = print_config(resolve([*WORDS, checkpoint], TRAIN))
    [line] = [line for line in text.splitlines() if line.strip().startswith("layers:")]
    assert line.split()[1] == "5" and f"--finetune-from {checkpoint}" in line


def test_finetune_from_rejects_other_folders(tmp_path):
    with pytest.raises(ToolkitError, match=r"with a readable config\.json .* Choose another"):
        load([*WORDS, str(tmp_path)], TRAIN)
    (tmp_path / "config.json").write_text('{"run": {"arch": "bert"}}')
    with pytest.raises(ToolkitError, match=r"does not name the checkpoint's arch\. Choose another"):
        load([*WORDS, str(tmp_path)], TRAIN)
