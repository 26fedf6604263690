"""Resuming: options that must stay, other tasks, optimizers, weights of other runs."""

import shutil
from dataclasses import replace

import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from tests.helpers.signed_files import sign_files
from toolkit.checkpoints import tensor_files
from toolkit.checkpoints.load import MODEL
from toolkit.checkpoints.tensor_files import read_tensors, write_tensors
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import OPTIMIZERS
from toolkit.config.load import compose
from toolkit.data.preprocess import preprocess
from toolkit.distributed import World
from toolkit.optim.update import clip_and_step
from toolkit.tasks.build import build_model
from toolkit.training.run import TrainingRun, run


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
    how = {"log_interval": 1, "save_interval_updates": 2}
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


FIRST = {"task": "hybrid", "task.causal_ratio": 1.0, "arch": "bert_tiny"}
THEN = {"task": "mlm", "arch": "bert_tiny", "checkpoint.new_task": True}


@pytest.fixture
def then(config, tmp_path, stopped):
    """The options of the second task, after three updates of the first."""
    stopped(config(**FIRST, save_dir=str(tmp_path / "first")), 3)
    return lambda **more: config(**{**THEN, "restore_file": str(tmp_path / "first"), **more})


def test_new_task_keeps_weights_optimizer_and_words(config, then, tmp_path):
    first = TrainingRun(config(**FIRST, save_dir=str(tmp_path / "first")), World())
    second = TrainingRun(then(), World())
    before, after = first.trainer, second.trainer
    assert (before.progress.update, before.progress.epoch, before.progress.consumed) == (3, 1, 3)
    assert (after.progress.update, after.progress.epoch, after.progress.consumed) == (3, 2, 0)
    assert after.progress.words == before.progress.words > 0
    of_first = dict(before.learner.named_parameters())
    for name, p in after.learner.named_parameters():
        assert torch.equal(p, of_first[name]), name
        for quantity, value in before.optimizer.state[of_first[name]].items():
            found = after.optimizer.state[p][quantity]
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(found)), (name, quantity)
    assert before.optimizer.state[before.learner.encoder.token_embedding.weight]


@pytest.mark.slow
def test_run_with_a_new_task_resumes_bit_for_bit(then, resumes_exactly):
    resumes_exactly(6, {"max_epoch": 3}, then, since=3)


def test_heads_that_do_not_fit_start_without_optimizer_state(then, capfd):
    training = TrainingRun(then(task="rtd"), World())
    heads = {"encoder": 0, "task": 0}
    for name, p in training.trainer.learner.named_parameters():
        heads[name.split(".")[0]] += p in training.trainer.optimizer.state
    assert heads["encoder"] > 9 and not heads["task"]
    assert "loaded 19 of 42 tensors" in " ".join(capfd.readouterr().err.split())
    training.fit()
    assert training.trainer.progress.update == 8


def test_another_task_is_refused_without_the_option(then):
    with pytest.raises(ToolkitError, match=r"task\.name was 'hybrid' and is now 'mlm'"):
        TrainingRun(then(**{"checkpoint.new_task": False}), World())


OPTIMIZER_VARIANTS = [
    *((name, {}) for name in sorted(OPTIMIZERS.builtins)),
    ("adamw", {"bias_correction": False, "layerwise_lr_decay": 0.8}),
    ("muon", {"normuon_beta2": 0.9, "newton_schulz": "polar_express", "cautious_decay": True}),
    ("sgd", {"momentum": 0.9, "nesterov": True}),
    ("rmsprop", {"momentum": 0.9, "centered": True}),
    ("adafactor", {"beta1": 0.9}),
]


def fresh(name, options):
    torch.manual_seed(0)
    size = {"layers": 1, "width": 16, "heads": 2, "embedding_width": 8}
    learner = build_model("composite_bert_tiny", vocabulary_size=11, task="mlm", **size)
    config = replace(OPTIMIZERS[name].config, lr=0.01, **options)
    return learner, OPTIMIZERS[name].factory(config, list(learner.named_parameters()))


def train(learner, optimizer, updates):
    parameters = list(learner.parameters())
    for number in updates:
        random = torch.Generator().manual_seed(number)
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=random)
        clip_and_step(optimizer, parameters, clip_norm=1.0)


@pytest.mark.parametrize(("name", "options"), OPTIMIZER_VARIANTS)
def test_optimizer_resumes_bit_for_bit(name, options, tmp_path):
    whole, optimizer = fresh(name, options)
    train(whole, optimizer, range(3))
    write_tensors(tmp_path / "model", whole.state_dict())
    write_tensors(tmp_path / "optimizer", tensor_files.collect_state(optimizer, whole))
    train(whole, optimizer, range(3, 6))
    again, other = fresh(name, options)
    again.load_state_dict(read_tensors(tmp_path / "model"))
    tensor_files.restore(other, again, read_tensors(tmp_path / "optimizer"))
    train(again, other, range(3, 6))
    for one, two in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    ends = [tensor_files.collect_state(o, m) for o, m in ((optimizer, whole), (other, again))]
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0].keys() | ends[1].keys())
