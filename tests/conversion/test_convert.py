"""The command: what it tells, what it refuses, and that its checkpoints are like the others."""

from __future__ import annotations

import json

import pytest
import torch

from toolkit import load_checkpoint
from toolkit.cli.convert import main
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.distributed import World
from toolkit.training.run import TrainingRun, run


def test_convert_reports_text_and_json(saved, tmp_path, capsys):
    _, folder = saved("BertForPreTraining")
    events = tmp_path / "events.jsonl"
    words = ["import", str(folder), str(tmp_path / "checkpoint"), "--json", str(events)]
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "architecture bert task mlm layers 2 width 24" in printed
    assert "extra tensors hugging_face.cls.seq_relationship.bias" in printed
    [record] = [json.loads(line) for line in events.read_text().splitlines()]
    assert record["event"] == "converted" and record["tensors"] == 34
    assert record["symbols"] == 21 and record["tokenizer"] == "wordpiece"


def test_export_names_its_class_the_reason_and_the_lines_that_open_it(
    finished, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(finished), "models"]) == 0
    printed = capsys.readouterr().out
    assert "reason      no class of Transformers computes it: the model is" in printed
    lines = [line.strip() for line in printed.splitlines()[-2:]]
    assert lines[1] == 'model = pipeline("fill-mask", model="models", trust_remote_code=True)'
    scope = {}
    exec("\n".join(lines), scope)
    assert type(scope["model"].model).__name__ in printed


@pytest.mark.slow
def test_exported_and_imported_model_validates_on_its_old_data(config, tmp_path, converted, data):
    small = {"arch": "bert_tiny", "save_dir": str(tmp_path / "bert"), "max_update": 2}
    run(config(**small))
    checkpoint = converted(converted(tmp_path / "bert", "hf", name="hf"), name="checkpoint")
    paths = [str(tmp_path / "bert"), str(checkpoint)]
    found = evaluate_checkpoints(ValidateConfig(dirs=[str(data)], path=paths, num_workers=0))
    figures = [found[path]["valid"] for path in paths]
    assert figures[0] == figures[1] and figures[0]["examples"] == 9
    with pytest.raises(ToolkitError, match=r"is a conversion of .*hf and has no optimizer"):
        TrainingRun(
            config(restore_file=str(checkpoint), **{**small, "save_dir": str(tmp_path / "x")}),
            World(),
        )
    more = TrainingRun(
        config(finetune_from=str(checkpoint), **{**small, "save_dir": str(tmp_path / "y")}), World()
    )
    more.close()
    own, imported = more.trainer.learner.state_dict(), load_checkpoint(checkpoint).state_dict()
    assert all(torch.equal(own[name], imported[name]) for name in imported)


def test_fine_tuning_loads_the_pooler_of_a_conversion(
    saved, converted, config, tmp_path, monkeypatch
):
    from toolkit.training import resume

    model, folder = saved("BertModel")
    checkpoint = converted(folder)
    learner = load_checkpoint(checkpoint)
    learner.task.pooler = torch.nn.Linear(24, 24)
    resume.load_finetune_weights(str(checkpoint), learner, learner.tokenizer, lambda text: None)
    assert torch.equal(learner.task.pooler.weight, model.pooler.dense.weight)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("there", r"DESTINATION must name a new folder, but .*there exists"),
        ("checkpoint_best", r"DESTINATION cannot be called checkpoint_"),
        ("checkpoint_e1_u2", r"DESTINATION cannot be called checkpoint_"),
        ("no/where", r"No such folder: .*no\. Create it"),
    ],
)
def test_convert_rejects_an_existing_or_reserved_target(tmp_path, name, message, converted):
    (tmp_path / "there").mkdir()
    with pytest.raises(ToolkitError, match=message):
        converted(tmp_path / "there", name=name)
