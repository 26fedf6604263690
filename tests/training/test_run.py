import json
import os
import signal

import pytest
import torch
from safetensors.torch import load_file

from toolkit.cli.preprocess import main as preprocess
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training.run import TrainingRun, run


def records(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json_files.loads(line) for line in lines]


def test_run_reports_metrics_of_training_and_validation(config, tmp_path):
    result = run(config(log_interval=5))
    train = [r for r in records(tmp_path / "run") if r["event"] == "train"]
    assert [(r["update"], r["epoch"]) for r in train] == [(5, 1), (10, 2)]
    assert {"loss", "mlm_loss", "ppl", "tokens_per_second", "updates_per_second", "lr", "mfu"} | {
        "gradient_norm", "clip_rate", "data_wait_rate", "peak_memory_gib", "seconds"
    } <= train[0].keys()  # fmt: skip
    assert result.train == {k: v for k, v in train[1].items() if k != "event"}
    assert result.valid["valid"]["examples"] == 9
    assert result.updates == 10 and result.epochs == 2 and result.exit_code == 0


@pytest.mark.slow
def test_log_begins_with_the_device_and_versions_and_repeats_them_on_resume(config, tmp_path):
    run(config(max_update=2))
    run(config(max_update=4))
    log = records(tmp_path / "run")
    starts = [r for r in log if r["event"] == "start"]
    assert log[0] == starts[0] and [r["update"] for r in starts] == [0, 2]
    assert starts[0]["device"].startswith("CPU") and starts[0]["torch"] == torch.__version__


def test_result_has_the_size_and_the_cost_of_a_token(config, tmp_path):
    result = run(config(max_update=2))
    weights = load_file(tmp_path / "run" / "checkpoint_last" / "model.safetensors")
    assert result.parameters == sum(w.numel() for w in weights.values())
    found = json.loads((tmp_path / "run" / "result.json").read_text())
    assert found["valid"] == result.valid and found["best"] == result.best
    assert found["config"]["arch"]["name"] == "composite_bert_tiny"
    ratio = result.flops_per_token / result.parameters
    assert 1 < ratio < 12  # six per weight that a token meets, and those of attention
    assert run(config(max_update=2)).flops_per_token is None  # nothing is left to train


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_signal_saves_and_stops_with_its_exit_code(config, tmp_path, number):
    training = TrainingRun(config(), World())

    def advance(step):
        if step.update == 3:
            os.kill(os.getpid(), number)

    training.advance_progress_bar = advance
    result = training.fit()
    assert result.exit_code == 128 + number and result.updates == 3
    assert os.readlink(tmp_path / "run" / "checkpoint_last") == "checkpoint_e1_u3"
    assert signal.getsignal(number) != training.trainer.request_stop


@pytest.mark.slow
def test_signal_in_the_last_update_does_not_change_the_result(config):
    training = TrainingRun(config(max_update=2), World())

    def advance(step):
        if step.update == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    training.advance_progress_bar = advance
    result = training.fit()
    assert result.exit_code == 0 and result.valid["valid"]["examples"] == 9


def test_what_must_fail_fails_before_update_1(config, data, tmp_path):
    with pytest.raises(ToolkitError, match=r"is 'acuracy'. Known: loss, mlm_loss, ppl, accuracy"):
        run(config(best_metric="acuracy"))
    (tmp_path / "short.txt").write_text("a b\n" * 20)
    words = ["--trainpref", f"{tmp_path / 'short.txt'}", "--tokenizer-from", f"{data}"]
    preprocess([*words, "--destdir", f"{tmp_path / 'short'}"])
    small = {"arch": "bert_tiny", "task.tokens_per_sample": 64, "arch.max_positions": 12}
    short = tmp_path / "short"  # short enough
    for dirs in (data, f"{short}:{data}", f"{data}:{short}"):
        with pytest.raises(ToolkitError, match=r"at most 12 tokens .* of train .*-positions \d\d"):
            run(config(**small, **{"data.dirs": [str(dirs)], "data.valid_subset": ""}))
    assert not records(tmp_path / "run")


@pytest.mark.slow
def test_checkpoint_best_has_the_best_metric(config, tmp_path):
    result = run(config(best_metric="accuracy", max_epoch=4, lr=0.01))
    best = os.readlink(tmp_path / "run" / "checkpoint_best")
    valid = [r for r in records(tmp_path / "run") if r["event"] == "valid"]
    top = max(valid, key=lambda r: r["accuracy"])
    assert best == f"checkpoint_e{top['epoch']}_u{top['update']}"
    figures = result.best.pop("valid")["valid"]
    assert figures.items() <= top.items() and figures["accuracy"] == top["accuracy"]
    assert result.best == {
        "metric": "accuracy", "value": top["accuracy"], "update": top["update"]
    }  # fmt: skip


def test_last_checkpoint_includes_its_validation(config, tmp_path):
    options = {"save_interval_updates": 2, "max_epoch": None, "lr_scheduler": "fixed"}
    first = run(config(max_update=4, lr=0.01, **options))
    second = run(config(max_update=6, lr=5.0, **options))
    assert first.best["update"] == second.best["update"] == 4
    assert (tmp_path / "run" / "checkpoint_best").resolve().name.endswith("_u4")


def test_no_save_writes_no_checkpoints(config, tmp_path):
    run(config(no_save=True, max_update=2))
    files = ["config.yaml", "environment.json", "metrics.jsonl", "result.json"]
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == files


def test_run_without_validation_saves_only_the_last_checkpoint(config, tmp_path):
    result = run(config(valid_subset="", max_update=2))
    assert result.valid == {} and result.best is None
    assert not (tmp_path / "run" / "checkpoint_best").exists()
    assert (tmp_path / "run" / "checkpoint_last").exists()


def test_unwritable_save_dir_is_reported_first(config, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="run"):
        run(config(save_dir=str(tmp_path / "file" / "run"), dirs=["nowhere"]))


@pytest.mark.slow
def test_workers_do_not_change_the_weights(config, tmp_path):
    found = [
        run(config(save_dir=str(tmp_path / str(n)), num_workers=n, max_update=4)).valid
        for n in (0, 2)
    ]
    assert found[0] == found[1]


@pytest.mark.slow
def test_two_ranks_equal_one_process_that_accumulates(config, tmp_path, ranks):
    def train(world):
        update_freq = 4 // world.size
        c = config(save_dir=str(tmp_path / f"{world.size}"), batch_size=2, update_freq=update_freq)
        result = TrainingRun(c, world).fit()
        return result.train["loss"], result.valid["valid"]

    alone = train(World())
    first, second = ranks(train)
    assert first == second
    assert first[0] == pytest.approx(alone[0], abs=1e-6)
    assert first[1]["loss"] == pytest.approx(alone[1]["loss"], abs=1e-6)
    assert first[1] == pytest.approx(alone[1], rel=1e-6)  # perplexities are larger than 1


@pytest.mark.slow
def test_ranks_with_different_options_are_rejected(config, tmp_path, ranks):
    def start(world):
        c = config(save_dir=str(tmp_path / "one"), lr=0.1 * (1 + world.rank))
        with pytest.raises(ToolkitError, match=r"all ranks must have the same options and data"):
            TrainingRun(c, world)
        return "refused"

    assert ranks(start) == ["refused"] * 2
