import shutil

import pytest

from toolkit.checkpoints.load import weights_file
from toolkit.cli.inspect import main
from toolkit.common.errors import ToolkitError
from toolkit.tasks.build import load_checkpoint
from toolkit.training.run import run


def test_inspect_shows_data_as_facts_table_and_items(data, capsys):
    assert main([str(data), "--examples", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(data) and lines[1].split() == ["kind", "text"]
    assert any(line.split()[:1] == ["train"] for line in lines)
    assert lines[-1].startswith("  valid 0")


def test_missing_path_is_a_user_error(data, capsys):
    assert main([f"{data}:/no/such/folder"]) == 2
    assert "No such data folder: /no/such/folder" in capsys.readouterr().err


def test_flops_work_for_a_checkpoint_and_for_an_architecture(finished, capsys):
    assert main([str(finished), "--flops"]) == 0
    out = capsys.readouterr().out
    assert "kind" in out and "so far  10 updates: " in out
    assert main(["--flops", "--arch", "bert_tiny", "--max-update", "7"]) == 0
    out = capsys.readouterr().out
    assert "encoder layer 1" in out and "bert_tiny, mlm, 30,522 symbols" in out
    assert "run     7 updates: " in out


def test_flops_of_a_data_folder_are_a_user_error(data, capsys):
    assert main([str(data), "--flops"]) == 2
    assert "--flops needs a checkpoint, but" in capsys.readouterr().err


def test_inspect_shows_how_a_run_was_started_and_what_differs(config, tmp_path, capsys):
    run(config(save_dir=str(tmp_path / "a"), max_update=1), command="toolkit-train x --lr 3e-4")
    run(config(save_dir=str(tmp_path / "b"), max_update=1, lr=0.5, lr_scheduler="cosine"))
    capsys.readouterr()
    assert main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    out = capsys.readouterr().out
    assert "toolkit-train x --lr 3e-4" in out
    rows = [line.split() for line in out.rpartition("differs in")[2].splitlines()]
    assert rows == [
        ["a", "b"],
        ["optimizer.lr", "0.0003", "0.5"],
        ["lr_scheduler.name", "linear", "cosine"],
    ]


def test_inspect_says_that_runs_do_not_differ(finished, capsys):
    paths = [str(finished), str(finished / "checkpoint_best")]
    assert main([*paths, "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert captured.err.endswith("\n\nThe options of these runs do not differ.\n")
    assert "difference" not in captured.out


def test_weights_that_the_manifest_does_not_list_are_not_read_and_are_named(trained, capsys):
    folder = (trained / "checkpoint_last").resolve()
    shutil.copy(folder / "model.safetensors", folder / "average.safetensors")
    assert weights_file(folder) == "model.safetensors"
    with pytest.raises(ToolkitError, match="kept no moving average"):
        load_checkpoint(folder, weights="average")
    assert main([str(folder), "--verify"]) == 0
    assert "not listed, nor read average.safetensors" in " ".join(capsys.readouterr().out.split())
