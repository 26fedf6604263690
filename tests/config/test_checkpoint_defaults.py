import dataclasses
import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.command import SavedRun
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import compose, load
from toolkit.config.serialize import diff_configs, to_dict

WORDS = ["data", "--task", "mlm", "--finetune-from"]


@pytest.fixture
def checkpoint(tmp_path):
    arch = {"name": "bert_tiny", "layers": 5, "max_positions": 300, "embedding_width": None}
    others = {name: {"name": ""} for name in ("task", "optimizer", "lr_scheduler")}
    saved = {"run": {"arch": arch, **others}, "sizes": {"tokens": 9}}
    (tmp_path / "config.json").write_text(json.dumps(saved))
    (tmp_path / "manifest.json").write_text("{}")
    return str(tmp_path)


def test_finetune_from_sets_the_architecture(checkpoint):
    arch = load([*WORDS, checkpoint], TRAIN).config.arch
    assert (arch.name, arch.config.layers, arch.config.max_positions) == ("bert_tiny", 5, 300)
    assert arch.config.embedding_width is None and arch.config.width == 128


def test_named_architecture_ignores_the_checkpoint(checkpoint):
    arch = load([*WORDS, checkpoint, "--arch", "bert_small"], TRAIN).config.arch
    assert (arch.name, arch.config.layers, arch.config.max_positions) == ("bert_small", 12, 128)


def test_finetune_from_rejects_other_folders(tmp_path):
    with pytest.raises(ToolkitError, match=r"No checkpoint is in .*"):
        load([*WORDS, str(tmp_path)], TRAIN)
    with pytest.raises(ToolkitError, match="Then run toolkit-convert import my-model converted"):
        load([*WORDS, "someone/my-model"], TRAIN)
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"run": {"arch": "bert"}}')
    with pytest.raises(ToolkitError, match=r"config\.json: .*run.*: expected object, found str"):
        load([*WORDS, str(tmp_path)], TRAIN)


NAMED = {"arch": "composite_bert_tiny", "task": "mlm"}
SAVED = {
    **NAMED,
    "lr_scheduler": "polynomial",
    "data.dirs": ["data"],
    "arch.dropout": 0.0,
    "task.mask_rate": 0.2,
    "lr": 5e-4,
    "warmup_updates": 7,
    "power": 2.0,
    "max_epoch": 3,
    "bf16": True,
    "update_freq": 4,
    "log_interval": 9,
    "save_dir": "first",
    "restore_file": "older",
    "keep_last_epochs": 2,
}


@pytest.fixture
def resume(train):
    """Loads words as those of a run that resumes SAVED; `asked` are the folders it looked in."""
    asked = []

    def call(*words, in_save_dir=True, **more):
        def find(save_dir, restore_file):
            asked.append((save_dir, restore_file))
            options = to_dict(compose({**SAVED, **more}))
            return SavedRun(options, "first/checkpoint_e1_u4", in_save_dir)

        return load(words, dataclasses.replace(train, find_saved_run=find)).config

    call.asked = asked
    return call


def changed(config):
    """The options that differ from the saved run, apart from where it starts from."""
    options = diff_configs(to_dict(compose({**SAVED, "restore_file": None})), to_dict(config))
    return {name: now for name, (_, now) in options.items() if name != "checkpoint.save_dir"}


def test_options_that_are_not_given_keep_the_values_of_the_checkpoint(resume):
    assert changed(resume("--save-dir", "first")) == {}
    assert resume.asked == [("first", "")]


def test_given_options_win_over_the_checkpoint_from_flags_and_files(resume, tmp_path):
    (tmp_path / "a.yaml").write_text("optimizer: {lr: 1e-3}\ntask: mlm\n")
    words = ["other", "--config", str(tmp_path / "a.yaml"), "--log-interval", "2"]
    assert changed(resume(*words)) == {
        "data.dirs": ["other"],
        "optimizer.lr": 1e-3,
        "logging.log_interval": 2,
    }


def test_named_component_keeps_its_options_and_another_one_has_its_defaults(resume):
    assert changed(resume("--arch", "composite_bert_tiny", "--lr-scheduler", "polynomial")) == {}
    config = resume("--lr-scheduler", "linear")
    assert config.lr_scheduler == compose({**NAMED, "lr_scheduler": "linear"}).lr_scheduler
    assert resume("--arch", "bert_tiny").arch == compose({**NAMED, "arch": "bert_tiny"}).arch


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--max-update", "50"], {"training.max_update": 50, "training.max_epoch": None}),
        (["--max-update=5", "--max-epoch=3"], {"training.max_update": 5}),
        (["--precision", "fp32"], {"training.precision": "fp32", "training.bf16": False}),
        (["--fp16"], {"training.fp16": True, "training.bf16": False}),
        (
            ["--micro-batches-per-update", "8"],
            {"training.micro_batches_per_update": 8, "training.update_freq": 1},
        ),
        (
            ["--warmup-fraction", "0.1"],
            {"lr_scheduler.warmup_fraction": 0.1, "lr_scheduler.warmup_updates": 0},
        ),
    ],
    ids=lambda it: "" if isinstance(it, dict) else it[0].removeprefix("--"),
)
def test_option_replaces_its_alternatives(resume, words, expected):
    assert changed(resume(*words)) == expected


@pytest.mark.parametrize("logdir", ["first/../events", "{tmp}/events", "first/link", "first/a\0"])
def test_saved_folder_of_events_is_used_inside_the_save_folder_only(
    resume, tmp_path, monkeypatch, logdir
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first").mkdir()
    (tmp_path / "first/link").symlink_to(tmp_path)
    words = "--save-dir", "first"
    for saved, expected in ((logdir.format(tmp=tmp_path), None), ("first/events", "first/events")):
        config = resume(*words, tensorboard_logdir=saved)
        assert config.logging.tensorboard_logdir == expected
    config = resume(*words, "--tensorboard-logdir", "events", tensorboard_logdir="other")
    assert config.logging.tensorboard_logdir == "events"


def test_other_run_gives_no_options_about_saving_and_logging(resume):
    config = resume("--restore-file", "first", "--save-dir", "second", in_save_dir=False)
    assert config.optimizer.config.lr == 5e-4
    assert config.logging.log_interval == 100 and config.checkpoint.keep_last_epochs == 0
