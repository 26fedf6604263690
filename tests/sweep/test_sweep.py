import json
import shutil
import signal

import pytest

from toolkit.checkpoints.load import read_starts
from toolkit.cli.train import main
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import TRAIN, SweepConfig
from toolkit.config.load import load
from toolkit.data.storage.data_folder import DataFolder
from toolkit.sweep import sweep as module
from toolkit.sweep.sweep import run_sweep

GRID = ["arch.fixed=true,false"]


@pytest.fixture
def words(data, tmp_path):
    shape = "--arch.layers 1 --arch.width 16 --arch.heads 2 --arch.embedding-width 8"
    options = (
        f"--arch composite_bert_tiny {shape} --task mlm --max-update 4 --save-dir {tmp_path}/s"
    )
    return [str(data), *options.split(), "--batch-size", "8", "--num-workers", "0"]


@pytest.fixture
def trained(monkeypatch):
    """Stands in for the trainings: writes each one's result, but not of those in `failing`."""
    names, failing, ending, changes = [], set(), [], {}

    def run_all(jobs, slots, watch):
        for job in jobs:
            names.append(job.name)
            config = json.loads((job.folder / "options.yaml").read_text())
            loss = 2.0 + config["training"]["seed"] - config["arch"]["fixed"]
            result = {"signal": None, "updates": 4, "seconds": 1.0, "best": None, "config": config}
            result |= {"parameters": 9, "flops_per_token": 6.5}
            result["train"] = {"tokens_per_second": 5.0, "peak_memory_gib": 0.5}
            result["valid"] = {"valid": {"loss": loss, "ppl": 1.0}}
            result |= changes.get(job.name, {})
            if job.name not in failing:
                (job.folder / "result.json").write_text(json.dumps(result))
        return ending[0] if ending else 0

    monkeypatch.setattr(module, "run_all", run_all)
    run_all.names, run_all.failing, run_all.ending = names, failing, ending
    run_all.changes = changes
    return run_all


def test_sweep_trains_every_run_and_prints_a_table(words, trained, tmp_path, capsys):
    assert run_sweep(words, SweepConfig(seeds=[0, 2], grid=GRID)) == 0
    assert trained.names == [f"arch.fixed={f},seed={s}" for f in ("true", "false") for s in (0, 2)]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "loss on valid"
    assert lines[2] == "true * 2.0000 1.4142 2 - - - - -"
    assert lines[3] == "false * 3.0000 1.4142 2 1.0000 - - 0.50000 0.50000"
    assert lines[5] == "cost: median of the seeds"
    assert lines[7] == "true 2.0000 9 6.5000 5.0000 0.50000"
    found = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert (found["best"], found["marked"]) == (0, [0, 1])
    assert [row["standard_error"] for row in found["summaries"]] == [1.0, 1.0]
    assert found["differences"][0] is None and found["differences"][1]["standard_error"] == 0.0
    assert [row["parameters"] for row in found["cost"]["rows"]] == [9, 9]
    assert [run["seed"] for run in found["runs"]] == [0, 2, 0, 2]
    assert "\\toprule" in (tmp_path / "s" / "sweep.tex").read_text()
    assert "| true * |" in (tmp_path / "s" / "sweep.md").read_text()  # no better than false


def test_a_variant_may_be_a_file_of_options_and_components(words, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text("arch: {dropout: 0.2}\n")
    (tmp_path / "both.yaml").write_text("arch: {fixed: true}\ntask: {name: hybrid}\n")
    line = [*words, "--arch.fixed", "false", "--config", "base.yaml"]
    assert run_sweep(line, SweepConfig(seeds=[1], grid=["config=base.yaml,both.yaml"])) == 0
    assert trained.names == ["config=base.yaml,seed=1", "config=both.yaml,seed=1"]
    runs = [
        json.loads((tmp_path / "s" / name / "options.yaml").read_text()) for name in trained.names
    ]
    assert [run["task"]["name"] for run in runs] == ["mlm", "hybrid"]
    assert [(run["arch"]["fixed"], run["arch"]["dropout"]) for run in runs] == [
        (False, 0.2),
        (True, 0.2),
    ]
    assert [run["optimizer"]["name"] for run in runs] == ["adamw", "adamw"]


@pytest.mark.slow
def test_random_search_compares_each_variant_at_its_best_value(words, trained, tmp_path, capsys):
    c = SweepConfig(seeds=[0, 1], grid=[*GRID, "lr=1e-5..1e-3"], trials=3)
    assert run_sweep(words, c) == 0
    rates = [name.split("lr=")[1].split(",")[0] for name in trained.names]
    assert len(trained.names) == 12 and rates[:6] == rates[6:] and len(set(rates)) == 3
    assert "loss on valid, best lr of each variant\n" in capsys.readouterr().out
    found = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert [row["arch.fixed"] for row in found["tuned"]["rows"]] == ["true", "false"]
    assert "best lr of each variant" in (tmp_path / "s" / "sweep.md").read_text()
    more = SweepConfig(seeds=[0, 1], grid=[*GRID, "lr=1e-5..1e-3"], trials=4)
    run_sweep(words, more)
    assert len(trained.names) == 16


def test_sweep_skips_finished_runs(words, trained):
    run_sweep(words, SweepConfig(seeds=[0]))
    run_sweep(words, SweepConfig(seeds=[0, 1]))
    run_sweep([*words, "--log-interval", "1"], SweepConfig(seeds=[0]))
    assert trained.names == ["seed=0", "seed=1"]


def test_sweep_extends_runs_but_rejects_other_options(words, trained, tmp_path):
    run_sweep(words, SweepConfig(seeds=[0]))
    run_sweep([*words, "--max-update", "5"], SweepConfig(seeds=[0]))
    assert trained.names == ["seed=0", "seed=0"]
    (tmp_path / "s" / "seed=0" / "checkpoint_e1_u5").mkdir()
    options = (tmp_path / "s" / "seed=0" / "options.yaml").read_bytes()
    with pytest.raises(
        ToolkitError, match=r"seed=0 optimizer.lr was 0.0003 and is now 0.5\. Restore them"
    ):
        run_sweep([*words, "--max-update", "5", "--lr", "0.5"], SweepConfig(seeds=[0]))
    assert trained.names == ["seed=0", "seed=0"]
    assert (tmp_path / "s" / "seed=0" / "options.yaml").read_bytes() == options


def test_sweep_rejects_shorter_runs(words, trained, tmp_path):
    (tmp_path / "s" / "seed=0" / "checkpoint_e2_u5").mkdir(parents=True)
    (tmp_path / "s" / "seed=0" / "checkpoint_e1_u3").mkdir()
    text = r"max_epoch is 1, but .*checkpoint_e2_u5 is from a longer run\. Raise it"
    with pytest.raises(ToolkitError, match=text):
        run_sweep([*words, "--max-update=5", "--max-epoch=1"], SweepConfig(seeds=[0]))
    assert not trained.names
    assert run_sweep([*words, "--max-update=5", "--max-epoch=2"], SweepConfig(seeds=[0])) == 0


def test_sweep_reports_failed_runs(words, trained, capsys):
    trained.failing.add("arch.fixed=false,seed=1")
    assert run_sweep(words, SweepConfig(seeds=[0, 1], grid=GRID)) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[-1] for row in rows[1:4]] == ["failed", "0", "1"]


def test_sweep_says_which_runs_a_time_limit_ended(words, trained, capsys):
    trained.changes["arch.fixed=true,seed=0"] = {"out_of_time": True}
    trained.changes["arch.fixed=false,seed=1"] = {"out_of_time": True, "valid": {}}
    assert run_sweep(words, SweepConfig(seeds=[0, 1], grid=GRID)) == 1
    printed = capsys.readouterr().out
    assert "1 run was ended by --training.stop-time-hours" in printed
    rows = [line.split() for line in printed.splitlines()]
    assert [row[-1] for row in rows[1:4]] == ["failed", "0", "1"]


def test_nothing_is_written_through_links_in_the_folder_of_a_sweep(words, trained, tmp_path):
    other, folder = tmp_path / "other", tmp_path / "s"
    (folder / "seed=0").mkdir(parents=True)
    other.mkdir()
    (folder / "sweep.png").symlink_to(other / "image.png")
    (folder / "seed=0" / "metrics.jsonl").write_text(
        '{"event": "valid", "update": 4, "subset": "valid", "loss": 2.0}\n'
    )
    assert run_sweep(words, SweepConfig(seeds=[0])) == 0
    assert (folder / "sweep.png").stat().st_size > 5000 and not list(other.iterdir())
    (folder / "seed=1").symlink_to(other)
    with pytest.raises(ToolkitError, match=r"s/seed=1 must be a folder to train in, but is a link"):
        run_sweep(words, SweepConfig(seeds=[0, 1]))
    assert not list(other.iterdir())


def test_sweep_requires_a_validation_split(words, trained):
    with pytest.raises(ToolkitError, match="requires a validation split, by which it compares"):
        run_sweep([*words, "--valid-subset", ""], SweepConfig(seeds=[0]))
    assert not trained.names


def test_sweep_rejects_data_that_changed_after_a_run(words, trained, tmp_path, data):
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    run_sweep([str(folder), *words[1:]], SweepConfig(seeds=[0]))
    record = {"folder": str(folder), "fingerprint": DataFolder.open(folder).sources[0].digest}
    write_start(tmp_path / "s" / "seed=0", record)
    assert run_sweep([str(folder), *words[1:]], SweepConfig(seeds=[0, 1])) == 0
    write_start(tmp_path / "s" / "seed=0", record | {"fingerprint": "ab" * 32})
    message = r"must have the same data, but .*/data was changed after the run in .*/s/seed=0: its"
    with pytest.raises(ToolkitError, match=message):
        run_sweep([str(folder), *words[1:]], SweepConfig(seeds=[0, 1, 2]))
    assert trained.names == ["seed=0", "seed=1"]


def write_start(folder, record):
    """The record of a start with one data folder."""
    texts = ("time", "working_directory", "host", "os", "cpu", "device")
    start = {"update": 0, "cores": 1, "ranks": 1, "toolkit": {}, "packages": {}, "data": [record]}
    start |= {"plugins": [], "gpus": []} | dict.fromkeys(texts, "")
    (folder / "environment.json").write_text(json.dumps([start]))


def test_an_interrupted_sweep_reports_unfinished_runs(words, trained, capsys):
    trained.ending.append(signal.SIGTERM)
    trained.failing.add("seed=1")
    assert run_sweep(words, SweepConfig(seeds=[0, 1])) == 143
    assert "1 of 2 runs are unfinished; the same command resumes" in capsys.readouterr().err


def test_sweep_rejects_an_unknown_option_in_the_grid(words, trained, tmp_path):
    with pytest.raises(ToolkitError, match=r"--arch.fixd. Did you mean --arch.fixed"):
        run_sweep(words, SweepConfig(grid=["arch.fixd=true,false"]))
    assert not (tmp_path / "s").exists()


def test_sweep_prints_a_slurm_script_of_unfinished_runs(words, trained, capsys):
    run_sweep(words, SweepConfig(seeds=[0]))
    capsys.readouterr()
    assert run_sweep(words, SweepConfig(seeds=[0, 1, 2], slurm=True)) == 0
    script = capsys.readouterr().out
    assert "#SBATCH --array=0-1\n" in script and trained.names == ["seed=0"]
    assert "  0) exec " in script and "/s/seed=1/options.yaml ;; # seed=1\n" in script


@pytest.mark.slow
def test_sweep_resumes_its_runs_and_compares(words, tmp_path):
    flags = ["--seeds", "0,1", "--sweep.jobs", "2"]
    assert main([*words, *flags, "--max-update", "2"]) == 0
    assert main([*words, *flags]) == 0
    log = (tmp_path / "s" / "seed=1" / "log.txt").read_text()
    assert "resuming from" in log and "2 updates" in log
    found = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert [run["updates"] for run in found["runs"]] == [4, 4]
    assert found["rows"][0]["deviation"] > 0
    assert (tmp_path / "s" / "sweep.png").stat().st_size > 1000
    folder = tmp_path / "s" / "seed=1"
    files = [["--config", str(folder / name)] for name in ("config.yaml", "options.yaml")]
    assert load(files[0], TRAIN).config == load(files[1], TRAIN).config
    changed = [start["changed_options"] for start in read_starts(folder)]
    assert changed == [{}, {"training.max_update": [2, 4]}]
