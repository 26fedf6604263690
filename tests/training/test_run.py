import json
import os
import signal
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from tests.helpers.operation_recorder import OperationRecorder
from toolkit import build_model
from toolkit.cli.preprocess import main as preprocess
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import ParallelTokenizer
from toolkit.data.tokenizers.word_level import FAIRSEQ_SPECIAL, WordLevelTokenizer
from toolkit.distributed import World
from toolkit.training import result
from toolkit.training.cuda_graphs import record_updates
from toolkit.training.result import start_rows
from toolkit.training.run import TrainingRun, run
from toolkit.training.setup import check_embedding_sharing


def records(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json_files.loads(line) for line in lines]


def test_run_reports_metrics_of_training_and_validation(config, tmp_path):
    result = run(config(log_interval=5))
    train = [r for r in records(tmp_path / "run") if r["event"] == "train"]
    assert [(r["update"], r["epoch"]) for r in train] == [(5, 1), (10, 2)]
    assert {"loss", "mlm_loss", "ppl", "tokens_per_second", "updates_per_second", "lr"} | {
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


def test_initial_weights_depend_only_on_the_seed(config, tmp_path):
    def weights(seed, name):
        c = config(seed=seed, save_dir=str(tmp_path / name))
        return TrainingRun(c, World()).trainer.parameters[0].tolist()

    assert weights(1, "a") == weights(1, "b") != weights(2, "c")


def test_resumed_run_keeps_its_precision(config):
    first = TrainingRun(config(max_update=1, precision="bf16"), World())
    first.fit()
    first.close()
    again = TrainingRun(config(max_update=2, precision="auto"), World())
    assert again.trainer.precision.name == "bf16"


def test_fp16_run_does_not_resume_on_a_cpu(config, tmp_path):
    c = config(max_update=1)
    first = TrainingRun(c, World())
    first.trainer.precision.name = "fp16"  # as a GPU would have saved it
    first.fit()
    first.close()
    with pytest.raises(ToolkitError, match=r"was trained in fp16.*GPU, or with --precision bf16\."):
        TrainingRun(config(max_update=2, precision="auto"), World())
    again = TrainingRun(config(max_update=2, precision="bf16"), World())
    assert again.trainer.precision.name == "bf16"


@pytest.fixture
def languages():
    """A tokenizer of two languages with one word each."""

    def make(source, target):
        inner, other = (
            WordLevelTokenizer.from_symbols([*FAIRSEQ_SPECIAL, word]) for word in (source, target)
        )
        return ParallelTokenizer(inner, other, source_lang="xx", target_lang="yy")

    return make


def test_share_embeddings_rejects_separate_dictionaries_of_equal_size(languages):
    model = build_model("transformer_tiny", vocabulary_size=6, share_embeddings="all")
    with pytest.raises(ToolkitError, match=r"but is all\. Choose --arch.share-embeddings decoder"):
        check_embedding_sharing(model, languages("cat", "Katze"))
    check_embedding_sharing(model, languages("cat", "cat"))
    check_embedding_sharing(build_model("transformer_tiny", vocabulary_size=6), languages("a", "b"))


def test_start_rows_describe_the_run(config, data):
    run = TrainingRun(config(update_freq=2, max_tokens=64), World())
    rows = start_rows(run.config, run.trainer, run.train, run.valid, run.total_updates)
    assert rows["architecture"].startswith("composite_bert_tiny, 4,")
    assert rows["batch"] == "at most 64 tokens and 8 examples x 2"
    assert rows["examples"] == "38 in train" and rows["data"] == str(data)
    assert rows["optimizer"] == "adamw, lr 0.0003, linear" and rows["machine"].endswith(", fp32")
    assert rows["updates"].startswith("0 of ") and "caution" not in rows


EXECUTIONS = {
    "composite_bert_tiny": "attention in one kernel, without padding, one CUDA graph, not compiled",
    "deberta_tiny": "attention in torch's operations, with padding, no CUDA graphs, not compiled",
}


@pytest.mark.parametrize("arch", EXECUTIONS)
def test_start_rows_name_what_computes_the_updates_on_a_gpu(config, monkeypatch, arch):
    run = TrainingRun(config(arch=arch, max_tokens=64), World())
    if arch == "composite_bert_tiny":
        record_updates(run.trainer, OperationRecorder(), print, filled=True)
    monkeypatch.setattr(result, "kernel_runs", lambda *_: True)
    monkeypatch.setattr(result, "device_name", str)
    run.trainer.world = replace(run.trainer.world, device=torch.device("cuda"))
    rows = start_rows(run.config, run.trainer, run.train, run.valid, run.total_updates)
    assert rows["execution"] == EXECUTIONS[arch]


def test_start_rows_name_the_warmup_and_one_that_is_longer_than_the_run(config):
    run = TrainingRun(config(lr_scheduler="fixed", warmup_updates=9, max_update=3), World())
    rows = start_rows(run.config, run.trainer, run.train, run.valid, run.total_updates)
    assert rows["optimizer"] == "adamw, lr 0.0003, fixed after 9 updates of warm-up"
    assert "longer than the run of 3 updates" in rows["caution"]
