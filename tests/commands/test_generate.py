import io
import json
import sys

import pytest

from toolkit import load_checkpoint
from toolkit.cli.generate import infer_mode, main
from toolkit.commands.generate import check_mode, fill_sentences, generate
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.commands.generate import FillMaskConfig, OrderConfig, TranslateConfig
from toolkit.config.load import compose
from toolkit.config.run import ComponentConfig
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner
from toolkit.training.run import run

LINES = b"the [MASK] sat\n\nno gap\n[MASK] and [MASK]\xff\n[MASK]" + b" a" * 5000 + b"\nthe [MASK]"


@pytest.fixture
def path(config, tmp_path):
    run(config(training__max_update=1))
    return str(tmp_path / "run")


@pytest.fixture
def stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_fill_mask_writes_one_output_per_line_in_order(path, tmp_path, stdin, capsys):
    stdin(LINES)
    results = tmp_path / "outputs.jsonl"
    assert (
        main(["--task", "mlm", "--path", path, "--top", "2", "--results-path", str(results)]) == 0
    )
    printed = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    outputs = [json.loads(line) for line in results.read_text().splitlines()]
    assert [row[0][:6] for row in printed] == ["the [M", "", "no gap", "[MASK]", "[MASK]", "the [M"]
    assert [output["line"] for output in outputs] == [1, 2, 3, 4, 5, 6]
    assert [len(output["masks"]) for output in outputs] == [1, 0, 0, 0, 0, 1]
    notes = ["empty", "no [MASK]", "not UTF-8 at byte 18"]
    assert [output["note"] for output in outputs[1:4]] == notes
    assert outputs[4]["note"].endswith("more than --max-tokens 4096")


def test_fill_mask_predicts_what_the_learner_predicts(path, tmp_path):
    results, text = tmp_path / "outputs.jsonl", tmp_path / "text"
    text.write_text("the [MASK] sat\na [MASK] saw how dogs run far\n")
    generate(FillMaskConfig(path=[path], input=str(text), top=3, results_path=str(results)))
    learner = load_checkpoint(path)
    for line in results.read_text().splitlines():
        output = json.loads(line)
        [predicted] = [[(c["token"], c["probability"]) for c in mask] for mask in output["masks"]]
        [expected] = learner.fill_mask(output["text"], top=3)
        assert dict(predicted) == pytest.approx(dict(expected), rel=1e-4)


def test_fill_sentences_runs_one_batch(path):
    learner, rows = load_checkpoint(path), []
    learner.encoder.register_forward_pre_hook(lambda _, args: rows.append(len(args[0].tokens)))
    assert len(fill_sentences(learner, 1, ["the [MASK]"] * 40)) == rows[0] == 40 and len(rows) == 1


def test_generate_rejects_unknown_tasks_and_unusable_files(path, tmp_path):
    with pytest.raises(ToolkitError, match=r"unknown task 'mlmm'. Did you mean 'mlm'"):
        generate(FillMaskConfig(path=[path], task="mlmm"))
    with pytest.raises(ToolkitError, match=r"No such file: --input"):
        generate(FillMaskConfig(path=[path], input=str(tmp_path / "missing")))
    (tmp_path / "empty").write_text("")
    missing = tmp_path / "no" / "folder"
    with pytest.raises(ToolkitError, match=r"Cannot write --results-path .*No such"):
        generate(
            FillMaskConfig(path=[path], input=str(tmp_path / "empty"), results_path=str(missing))
        )


def test_generate_writes_nothing_for_an_empty_input(path, stdin, capsys):
    stdin(b"")
    assert main(["--path", path]) == 0
    assert capsys.readouterr().out == ""


def test_order_reorders_words_with_an_mpm_model(data, tmp_path, stdin, capsys):
    one = {"training.max_update": 1, "batch_size": 8, "num_workers": 0, "device": "cpu"}
    run(
        compose(
            {"arch": "taco_tiny", "task": "mpm", "data.dirs": [str(data)], **one}
            | {"save_dir": str(tmp_path / "run")}
        )
    )
    stdin(b"the cat {sat} on {mats}\n\nsat\nthe cat\n")
    results = tmp_path / "outputs.jsonl"
    words = ["order", "--path", str(tmp_path / "run"), "--results-path", str(results)]
    assert main(words) == 0
    first, empty, one, last = map(json.loads, results.read_text().splitlines())
    assert first["sentence"].startswith("the cat") and len(first["masks"]) >= 2
    assert empty["note"] == "fewer than two tokens to order" and "sentence" not in empty
    assert sorted(last["sentence"].split()) == ["cat", "the"]
    assert capsys.readouterr().out.splitlines()[0].split("\t")[1] == first["sentence"]
    assert one["line"] == 3


@pytest.mark.parametrize(
    ("config", "tasks"),
    [
        (FillMaskConfig, "mlm, mpm or rtd"),
        (OrderConfig, "mpm"),
        (TranslateConfig, "translation"),
    ],
)
def test_check_mode_rejects_checkpoints_of_other_tasks(config, tasks):
    arch, task = ARCHITECTURES["bert_tiny"], TASKS["encode"]
    components = ComponentConfig("bert_tiny", arch.config), ComponentConfig("encode", task.config)
    learner = build_learner(*components, Sizes(tokens=9))
    message = f"a model trained with --task {tasks}; run was trained with --task encode"
    with pytest.raises(ToolkitError, match=message):
        check_mode(config(path=["run"]), "run", learner.task)


def test_infer_mode_follows_the_task_of_the_checkpoint(path, tmp_path, capsys):
    assert infer_mode(["--path", path, "--top", "3"]) == "fill-mask"
    (tmp_path / "c.yaml").write_text(f"path: {path}\n")
    assert infer_mode(["--config", str(tmp_path / "c.yaml")]) == "fill-mask"
    assert infer_mode(["--top", "3"]) == ""
    assert main(["--path", str(tmp_path / "none")]) == 2
    assert "none/config.json must be readable, but is not" in capsys.readouterr().err
    assert main(["--top", "3"]) == 2
    assert "toolkit-generate needs a MODE or --path" in capsys.readouterr().err
