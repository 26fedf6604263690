import shutil

import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from tests.helpers.signed_files import sign_files
from toolkit.checkpoints.load import MODEL
from toolkit.checkpoints.tensor_files import read_tensors, write_tensors
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.data.preprocess import preprocess
from toolkit.distributed import World
from toolkit.training.run import TrainingRun, run


def run_options(folder, accumulation=1, workers=0, precision="fp32"):
    return {
        "save_dir": str(folder),
        "batch_size": 8 // accumulation,
        "update_freq": accumulation,
        "num_workers": workers,
        "precision": precision,
        "log_interval": 7,
        "validate_interval_updates": 2,
        "patience": 5,
        "lr": 0.01,
        "warmup_updates": 3,
    }


@pytest.mark.slow
def test_run_of_two_ranks_resumes_in_one_process(config, tmp_path, ranks, stopped):
    def run_config(folder, update_freq):
        return config(save_dir=str(tmp_path / folder), batch_size=4, update_freq=update_freq)

    whole = run(run_config("whole", 2))
    ranks(lambda world: stopped(run_config("cut", 1), 3, world))
    again = run(run_config("cut", 2))
    assert again.updates == whole.updates and again.best["update"] == whole.best["update"]
    assert again.valid["valid"] == pytest.approx(whole.valid["valid"], rel=1e-6)


@pytest.mark.slow
def test_log_of_a_resumed_run_has_every_update_once(config, tmp_path, stopped):
    how = {**run_options(tmp_path / "run"), "log_interval": 1, "save_interval_updates": 2}
    stopped(config(**how), 5)
    shutil.rmtree(tmp_path / "run" / "checkpoint_e1_u5")  # as if it had crashed after update 4
    run(config(**how))
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    records = [json_files.loads(line) for line in text.splitlines()]
    assert [r["update"] for r in records if r["event"] == "train"] == list(range(1, 11))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arch.radius": 3}, r"arch\.radius was 8 and is now 3"),
        ({"task.mask_rate": 0.2}, r"task\.mask_rate was 0\.15 and is now 0\.2"),
        ({"training.seed": 5}, r"training\.seed was 1 and is now 5"),
        ({"optimizer": "sgd"}, r"other options: optimizer\.name was 'adamw' and is now 'sgd'\. "),
        ({"train_subset": "valid"}, r"with other data: its examples"),
    ],
)
def test_resume_rejects_other_options_and_lists_them(config, trained, change, message):
    with pytest.raises(ToolkitError, match=message):
        run(config(**change))


@pytest.mark.slow
def test_resume_rejects_the_other_direction_of_translation(tmp_path):
    for language, line in (("xx", "a b c"), ("yy", "d e")):
        (tmp_path / f"train.{language}").write_text(f"{line}\n" * 9)

    def options(source, target, updates):
        folder = tmp_path / f"{source}-{target}"
        preprocess(
            preprocess_config(
                trainpref=str(tmp_path / "train"),
                source_lang=source,
                target_lang=target,
                tokenizer="words",
                joined_dictionary=True,
                destdir=str(folder),
                workers=1,
            )
        )
        return compose({
            "arch": "transformer_tiny", "task": "translation", "data.dirs": [str(folder)],
            "save_dir": str(tmp_path / "run"), "valid_subset": "", "max_update": updates,
            "device": "cpu", "precision": "fp32", "num_workers": 0,
        })  # fmt: skip

    run(options("xx", "yy", 1))
    with pytest.raises(ToolkitError, match="differs: one translates yy-xx, the other xx-yy"):
        run(options("yy", "xx", 2))


def test_resume_fails_if_every_checkpoint_is_damaged(config, trained):
    for file in trained.glob("checkpoint_e*/state.json"):
        file.unlink()
    with pytest.raises(ToolkitError, match=r"must hold an intact checkpoint, but all 2"):
        run(config())


@pytest.mark.slow
def test_restore_file_is_ignored_once_the_run_has_checkpoints(config, tmp_path, stopped, capfd):
    stopped(config(save_dir=str(tmp_path / "a")), 4)
    options = {"save_dir": str(tmp_path / "b"), "restore_file": str(tmp_path / "a")}
    stopped(config(**options), 7, since=4)
    assert run(config(**options)).updates == 10
    stderr = " ".join(capfd.readouterr().err.split())
    assert f"ignoring --restore-file {tmp_path / 'a'}" in stderr and "has newer" in stderr
    assert f"resuming from {tmp_path / 'b'}" in stderr and "7 updates" in stderr


def test_resume_rejects_another_order_before_it_changes_the_log(config, tmp_path, stopped):
    stopped(config(log_interval=1), 7)
    log = tmp_path / "run" / "metrics.jsonl"
    before = log.read_bytes()
    with pytest.raises(ToolkitError, match="must stay the same within an epoch"):
        TrainingRun(config(log_interval=1, batch_size=3), World())
    assert log.read_bytes() == before


def test_finetune_from_loads_only_the_weights(config, trained, tmp_path, capfd):
    tuned = {"save_dir": str(tmp_path / "tuned"), "finetune_from": str(trained)}
    before = TrainingRun(config(**tuned), World())
    assert "loaded 25 of 25 tensors" in " ".join(capfd.readouterr().err.split())
    assert before.trainer.progress.update == 0
    saved = TrainingRun(config(), World())
    for p, q in zip(before.trainer.parameters, saved.trainer.parameters, strict=True):
        assert torch.equal(p, q)


def test_resume_rejects_another_finetune_from(config, trained, tmp_path):
    other = shutil.copytree(trained, tmp_path / "other", symlinks=True)
    tuned = {"save_dir": str(tmp_path / "tuned"), "max_update": 1}
    run(config(**tuned, finetune_from=str(trained)))
    run(config(**tuned))
    with pytest.raises(ToolkitError, match=r"finetune_from was '.*run' and is now '.*other'"):
        run(config(**tuned, finetune_from=str(other)))


def test_finetune_from_reports_weights_that_do_not_fit(config, trained, tmp_path, capfd):
    shape = {"arch__radius": 3, "arch__layers": 2, "save_dir": str(tmp_path / "tuned")}
    TrainingRun(config(finetune_from=str(trained), **shape), World())
    stderr = capfd.readouterr().err
    assert "initialized, since the checkpoint has none: encoder.layers.1." in stderr
    assert "initialized, since the checkpoint's have another shape: " in stderr


def test_finetune_from_rejects_weights_that_are_not_finite(config, trained, tmp_path):
    last = (trained / "checkpoint_last").resolve()
    tensors = read_tensors(last / MODEL)
    tensors["encoder.embeddings.words.weight"][3] = torch.nan
    write_tensors(last / MODEL, tensors)
    sign_files(last, MODEL)
    tuned = {"save_dir": str(tmp_path / "tuned"), "finetune_from": str(trained)}
    with pytest.raises(ToolkitError, match=r"the weights in .*model\.safetensors are not finite"):
        TrainingRun(config(**tuned), World())
