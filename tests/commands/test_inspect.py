import json
from dataclasses import asdict

import pytest

from toolkit import build_model
from toolkit.checkpoints.load import find_start
from toolkit.checkpoints.save_folder import read_manifest, write_manifest
from toolkit.cli.inspect import main
from toolkit.commands.inspect import describe_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.config.command import MANIFEST
from toolkit.data.tokenizers.tokenizer import Tokenizer


def rewritten(folder, **sections):
    """A checkpoint with a changed config.json and a new manifest."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **sections}))
    facts = asdict(read_manifest(folder))
    (folder / MANIFEST).unlink()
    write_manifest(folder, facts)
    return folder


def test_inspect_prints_run_size_best_metric_and_start(trained, capsys):
    assert main([str(trained)]) == 0
    lines = [line.strip().split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    found = {line[0]: line[-1] for line in lines if line}
    assert found["checkpoint"] == "checkpoint_e2_u10"
    assert found["links"] == "checkpoint_last; checkpoint_best"
    assert found["architecture"].startswith("name composite_bert_tiny, layers 1, width 16, ")
    assert found["task"].startswith("name mlm, tokens_per_sample 128, ")
    assert (found["update"], found["epoch"], found["types"]) == ("10", "2", "F32")
    assert found["best"].startswith("metric loss, value ")
    assert (found["precision"], found["ranks"]) == ("fp32", "1")
    assert found["tokenizer"].startswith("kind sentencepiece")
    assert any(line[0] == "start:" and line[1].startswith("host ") for line in lines if line)


def test_describe_checkpoint_shows_the_metadata_of_a_saved_learner(trained, tmp_path):
    from toolkit import load_checkpoint

    load_checkpoint(trained).save(tmp_path / "model", metadata={"language": "English"})
    found = describe_checkpoint(tmp_path / "model")[0]
    assert found["metadata"] == '{"language": "English"}'


def test_describe_checkpoint_verifies_every_file(trained):
    folder = trained / "checkpoint_last"
    assert describe_checkpoint(folder, verify=True)[0]["digests"] == "all right"
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "not compared" in describe_checkpoint(folder)[0]["digests"]
    with pytest.raises(ToolkitError, match=r"model\.safetensors"):
        describe_checkpoint(folder, verify=True)


def test_describe_checkpoint_names_a_deleted_file_that_only_resuming_reads(trained):
    folder = trained / "checkpoint_last"
    (folder / "optimizer.safetensors").unlink()
    found, _ = describe_checkpoint(folder, verify=True)
    assert found["missing"] == ["optimizer.safetensors"]
    assert found["digests"] == "all right"


def test_describe_checkpoint_names_plugins_that_are_not_loaded(trained):
    run = json.loads((trained / "checkpoint_last" / "config.json").read_text())["run"]
    run["arch"]["name"] = "their_own"
    needed = [{"name": "their_folder", "sha256": "ab" * 32}]
    found, _ = describe_checkpoint(rewritten(trained / "checkpoint_last", run=run, plugins=needed))
    assert found["plugins"] == ["their_folder", "not loaded: pass their folders with --user-dir"]
    assert found["architecture"]["name"] == "their_own" and "best" in found


START = {
    **{"time": "2026-11-23T16:06:32+00:00", "working_directory": "/home/me", "plugins": []},
    **{"toolkit": {"version": "0.1.0", "commit": "abc", "uncommitted_changes": True}},
    **{"packages": {"python": "3.11.7"}, "host": "node3", "os": "Linux", "cpu": "EPYC"},
    **{"cores": 96, "memory_gib": 755.5, "gpus": [], "device": "H200", "ranks": 2},
    **{"command": "toolkit-train data", "resumed_from": None},
}


@pytest.fixture
def record(tmp_path):
    """Writes these starts, and gives the path of a checkpoint next to the record."""

    def write(starts):
        (tmp_path / "environment.json").write_text(json.dumps(starts))
        return tmp_path / "checkpoint_e1_u5"

    return write


def test_start_of_a_checkpoint_is_the_last_one_before_its_update(record):
    checkpoint = record([{**START, "update": update} for update in (0, 4, 4, 8)])
    assert [find_start(checkpoint, update)["update"] for update in (0, 4, 5, 8, 9)] == [
        0,
        0,
        4,
        4,
        8,
    ]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on a mat\n\nhow far dogs run\nthe mat\n" * 5)
    return path


def test_word_order_of_a_data_folder_is_a_table_and_records(data, finished, tmp_path, capsys):
    target = tmp_path / "order.jsonl"
    argv = [str(finished), "--word-order", str(data), "--shuffles", "2", "--json", str(target)]
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{finished}: ") and lines[0].endswith(" tokens of 18 sentences")
    names = ["original", "windows of 2", "windows of 4", "windows of 8", "whole sentence"]
    assert [line.partition("  ")[0] for line in lines[2:]] == names
    assert [line.split().count("-") for line in lines[2:]] == [3, 0, 0, 0, 0]
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [record["window"] for record in records] == [1, 2, 4, 8, None]
    assert [record["shuffles"] for record in records] == [1, 2, 2, 2, 2]
    assert records[0]["increase"] == 0 and records[0]["perplexity_ratio"] == 1


def test_word_order_of_a_text_file_compares_checkpoints(finished, trained, text, capsys):
    argv = [str(finished), str(trained), "--word-order", str(text), "--limit", "7"]
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" tokens of 7 sentences")
    first, second = lines[-2:]
    assert first.split()[1:] == second.split()[1:] and lines[-3].startswith("checkpoint")


def test_word_order_reports_mistakes(data, finished, text, tmp_path, capsys):
    names = {"run": finished, "data": data, "text": text}
    tokenizer = Tokenizer.train(["the cat sat on a mat"] * 3, vocabulary_size=20)
    for name, task in (("rtd", "rtd"), ("other", "mlm")):
        names[name] = tmp_path / name
        build_model("bert_tiny", tokenizer=tokenizer, task=task, layers=1).save(names[name])
    for argv, message in (
        ("{run} --word-order no/file", "no/file: No such file or directory. Check the path"),
        (
            "{run} --word-order {run}",
            "{run} must be a data folder, but has no meta.json.",
        ),
        ("{rtd} --word-order {text}", "language_modeling; {rtd} was trained with rtd."),
        ("{other} --word-order {data}", "the data must have the tokenizer of {other}"),
    ):
        assert main(argv.format(**names).split(" ")) == 2
        error = capsys.readouterr().err
        assert message.format(**names) in error and error.count("\n") == 1
