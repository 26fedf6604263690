import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.runs import group_runs, read_log, read_runs, short_names


def make_run(folder, *, fixed=True, seed=1, result="result.json", arch="bert", **more):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"event": "train", "update": 1, "loss": 2.0}\n')
    config = {
        "arch": {"name": arch, "fixed": fixed},
        "training": {"seed": seed},
        "checkpoint": {"save_dir": str(folder), "finetune_from": None},
        **more,
    }
    saved = {"config": config} if result == "result.json" else config
    if result:
        (folder / result).write_text(json.dumps(saved))


def names(folder):
    return {name: len(runs) for name, runs in group_runs(read_runs([folder])).items()}


def test_runs_that_differ_only_in_their_seed_are_one_group(tmp_path):
    make_run(tmp_path / "a", fixed=True, seed=1)
    make_run(tmp_path / "b", fixed=True, seed=2, result="options.yaml")
    make_run(tmp_path / "c", fixed=False)
    assert names(tmp_path) == {"fixed=true": 2, "fixed=false": 1}


def test_runs_finetuned_from_different_checkpoints_are_different_groups(tmp_path):
    for name in ("a", "b"):
        make_run(tmp_path / name)
        saved = json.loads((tmp_path / name / "result.json").read_text())
        saved["config"]["checkpoint"]["finetune_from"] = f"from/{name}"
        (tmp_path / name / "result.json").write_text(json.dumps(saved))
    assert names(tmp_path) == {"finetune_from=from/a": 1, "finetune_from=from/b": 1}


def test_group_names_omit_options_implied_by_component_names(tmp_path):
    made = [("plain", False, 1), ("plain", False, 2), ("kernels", True, 1), ("kernels", True, 2)]
    for arch, fixed, lr in made:
        options = {"optimizer": {"lr": lr}, "criterion": {"name": f"of {arch}"}}
        make_run(tmp_path / f"{arch}-{lr}", arch=arch, fixed=fixed, **options)
    assert set(names(tmp_path)) == {"plain, lr=1", "plain, lr=2", "kernels, lr=1", "kernels, lr=2"}


def test_groups_are_sorted_by_numeric_options(tmp_path):
    for size in (17, 1, 5):
        make_run(tmp_path / "sizes" / f"size={size}", fixed=size)
    assert list(names(tmp_path / "sizes")) == ["fixed=1", "fixed=5", "fixed=17"]
    for number, fixed in enumerate((True, False)):
        make_run(tmp_path / "flags" / str(number), fixed=fixed)
    assert list(names(tmp_path / "flags")) == ["fixed=true", "fixed=false"]


def test_runs_without_a_configuration_are_grouped_by_folder_name(tmp_path):
    for name in ("x,seed=1", "x,seed=2", "y,seed=1"):
        make_run(tmp_path / name, result="")
    assert names(tmp_path) == {"x": 2, "y": 1}


def test_groups_with_equal_labels_are_kept_apart(tmp_path):
    for place, config in (("a", {"arch": {"size": None}}), ("b", {"arch": {}})):
        make_run(tmp_path / place / "run", result="")
        (tmp_path / place / "run" / "result.json").write_text(json.dumps({"config": config}))
    found = group_runs(read_runs([tmp_path / "a", tmp_path / "b"]))
    assert {name: len(runs) for name, runs in found.items()} == {"a/run": 1, "b/run": 1}


def test_read_runs_rejects_a_folder_without_runs(tmp_path):
    with pytest.raises(ToolkitError, match=r"No run in .*: it has no metrics.jsonl"):
        read_runs([tmp_path])
    with pytest.raises(ToolkitError, match=r"No run in .*. Name the --save-dir"):
        read_runs([tmp_path / "missing"])


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/runs/a", "/runs/b"], ["a", "b"]),
        (
            ["x/a/checkpoint_best", "x/b/checkpoint_best"],
            ["a/checkpoint_best", "b/checkpoint_best"],
        ),
        (["a", "b/a"], ["a", "b/a"]),
    ],
)
def test_short_names_are_the_shortest_distinct_path_suffixes(paths, names):
    assert short_names(paths) == names


def test_read_records_skips_an_incomplete_last_line(tmp_path):
    (tmp_path / "log").write_text('{"update": 1}\n{"update": 2, "lo')
    assert read_log(tmp_path / "log") == [{"update": 1}]
    (tmp_path / "log").write_text('{"update": 1}\n{"update": 2}')
    assert read_log(tmp_path / "log") == [{"update": 1}, {"update": 2}]


def test_read_records_names_the_line_that_is_not_json(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"update": 1}\n[1]\n{"update": 2}\n')
    with pytest.raises(ToolkitError, match="one JSON object per line, but line 2 is '"):
        read_log(tmp_path / "metrics.jsonl")
