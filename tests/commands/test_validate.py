import json
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest

from toolkit import preprocess
from toolkit.cli.validate import COMMAND
from toolkit.commands.validate import evaluate_checkpoints, list_evaluations
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import load
from toolkit.config.sections import ComponentConfig
from toolkit.config.values import Overrides
from toolkit.distributed import World
from toolkit.training.run import TrainingRun, run


def asked(data, *paths, **options):
    options = {"num_workers": 0, "precision": "fp32", **options}
    return ValidateConfig(dirs=[str(data)], path=[str(p) for p in paths], **options)


@pytest.mark.slow
def test_validate_evaluates_several_checkpoints_and_splits(config, data, tmp_path, capsys):
    result = run(config(max_update=2))
    paths = [tmp_path / "run", tmp_path / "run" / "checkpoint_last"]
    found = evaluate_checkpoints(asked(data, *paths, valid_subset="valid,train", batch_size=5))
    assert found.keys() == {str(path) for path in paths}
    for subsets in found.values():
        assert subsets["valid"] == pytest.approx(result.valid["valid"], rel=1e-5)
        assert subsets["train"]["examples"] == 38
    assert "checkpoint_last train" in capsys.readouterr().out


def test_overridden_options_are_evaluated_in_one_table(config, data, tmp_path, capsys):
    result = run(config(max_update=2))
    path, values = str(tmp_path / "run"), ["16", "6"]
    task = Overrides({"tokens_per_sample": values})
    files = {name: str(tmp_path / name) for name in ("json", "results_path")}
    found = evaluate_checkpoints(asked(data, path, task=task, **files))
    names = [f"{path} task.tokens_per_sample={value}" for value in values]
    assert list(found) == names
    same, short = (found[name]["valid"] for name in names)
    assert same == pytest.approx(result.valid["valid"], rel=1e-5)
    assert abs(short["loss"] - same["loss"]) > 1e-4
    printed = capsys.readouterr().out
    assert all(f"{name} valid" in printed for name in names)
    assert json.loads(Path(files["results_path"]).read_text()) == found
    events = [json.loads(line) for line in Path(files["json"]).read_text().splitlines()]
    assert [event["task.tokens_per_sample"] for event in events] == [16, 6]
    assert [event["loss"] for event in events] == [same["loss"], short["loss"]]


def test_length_beyond_absolute_positions_is_an_error(config, data, tmp_path):
    short = {"arch.max_positions": 12, "task.tokens_per_sample": 12}
    run(config(arch="bert_tiny", max_update=1, **short))
    longer = Overrides({"tokens_per_sample": ["8", "21"]})
    with pytest.raises(ToolkitError, match=r"at most 12 tokens .* example of valid has \d\d\."):
        evaluate_checkpoints(asked(data, tmp_path / "run", task=longer))


def test_validate_uses_the_same_masks_for_different_seeds(config, tmp_path):
    runs = [TrainingRun(config(seed=s, save_dir=str(tmp_path / f"{s}")), World()) for s in (1, 2)]
    shown = [
        [split.examples.collate(np.arange(4), epoch).inputs.tokens for split, epoch in splits]
        for splits in ([(r.train, 1), (r.valid[0], None)] for r in runs)
    ]
    (train, valid), (other_train, other_valid) = shown
    assert valid.equal(other_valid) and not train.equal(other_train)


@pytest.mark.parametrize("name", ["results_path", "predictions"])
def test_validate_rejects_an_unwritable_path_before_the_work(data, tmp_path, name):
    file = str(tmp_path / "nowhere" / "out.json")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        evaluate_checkpoints(asked(data, tmp_path / "no checkpoint", **{name: file}))


def test_validate_rejects_data_of_another_vocabulary(config, trained, tmp_path):
    (tmp_path / "text").write_text("completely other words\nwith other letters xyz\n" * 20)
    text, other = str(tmp_path / "text"), str(tmp_path / "other")
    preprocess(trainpref=text, validpref=text, destdir=other, vocab_size=25, workers=1)
    with pytest.raises(ToolkitError, match=r"must have the tokenizer of .*run, but"):
        evaluate_checkpoints(asked(tmp_path / "other", tmp_path / "run"))
    with pytest.raises(ToolkitError, match=r"differs from that of --finetune-from"):
        finetune = {"save_dir": str(tmp_path / "b"), "finetune_from": str(tmp_path / "run")}
        run(config(dirs=[other], **finetune))


def test_validate_rejects_an_unknown_split(finished, data):
    with pytest.raises(ToolkitError, match=r"no split of .* is called 'tset'"):
        evaluate_checkpoints(asked(data, finished, valid_subset="tset"))


def test_validate_stops_its_workers_on_failure(trained, data, monkeypatch):
    """A worker that waits for requests would keep the command from ending."""

    def failing(learner, criterion, loader, **options):
        next(loader.evaluation())
        assert active_children()
        raise ZeroDivisionError

    monkeypatch.setattr("toolkit.commands.validate.evaluate_model", failing)
    with pytest.raises(ZeroDivisionError):
        evaluate_checkpoints(asked(data, trained, num_workers=1))
    assert not active_children()


GIVEN = ["data", "--path", "run"]


def read(*words):
    return load([*GIVEN, *words], COMMAND).config.task.values


def variants(task="mlm", **values):
    component = ComponentConfig(task, TASKS[task].config)
    return list(list_evaluations("run", component, Overrides(values)))


def test_flags_override_files(tmp_path):
    (tmp_path / "a.yaml").write_text("task: {tokens_per_sample: [8, 16], mask_rate: 0.3}\n")
    from_file = ["--config", str(tmp_path / "a.yaml")]
    assert read(*from_file) == {"tokens_per_sample": ["8", "16"], "mask_rate": ["0.3"]}
    flags = ["--task.tokens-per-sample", "32"]
    assert read(*from_file, *flags) == {"tokens_per_sample": ["32"], "mask_rate": ["0.3"]}


@pytest.mark.parametrize(
    ("task", "values", "message"),
    [
        ("mlm", {"tokens_per_samples": ["8"]}, r"no option .* Did you mean --task.tokens-per-sam"),
        ("mlm", {"tokens_per_sample": ["8", "x"]}, r"must be a whole number, but is 'x' \(--task"),
        ("rtd", {"generator_size": ["1"]}, "--task.generator-size cannot be changed after trainin"),
    ],
)
def test_overrides_that_the_task_does_not_allow_are_errors(task, values, message):
    with pytest.raises(ToolkitError, match=message):
        variants(task, **values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task.tokens-per-sample", ""], r"must have a value, but is empty \(--task.tokens"),
        (["--task", "mpm"], "no option is called --task"),
        (["--arch.layers", "3"], "no option is called --arch.layers"),
        (["--predictions", "a", "--tokens-per-sample", "8,9"], "one value of each option"),
    ],
)
def test_other_options_of_a_run_are_errors(words, message):
    with pytest.raises(ToolkitError, match=message):
        read(*words)
