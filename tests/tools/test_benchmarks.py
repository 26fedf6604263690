"""Every benchmark starts; the harness times programs in alternation."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import harness  # noqa: E402
from gpu_sections import report as gpu_report  # noqa: E402
from gpu_sections.batches import Shape, make_batch  # noqa: E402
from gpu_sections.kernels import greatest_error  # noqa: E402

SCRIPTS = sorted(f for f in FOLDER.glob("*.py") if f.stem not in ("harness", "workloads"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_benchmark_explains_itself(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(script), run_name="__main__")
    assert "--report" in capsys.readouterr().out


def test_readme_lists_every_benchmark():
    text = (FOLDER / "README.md").read_text("utf-8")
    assert not [script.name for script in SCRIPTS if f"`{script.name}`" not in text]


def test_alternate_takes_the_median_of_rounds_in_turn():
    order, times = [], iter(range(100))
    programs = {"one": lambda: order.append(1), "two": lambda: order.append(2)}
    found = harness.alternate(programs, 2, warm_up=1, clock=lambda: float(next(times)))
    assert order == [1, 2] * 3 and found == {"one": 1.0, "two": 1.0}


def test_publish_writes_a_dated_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(harness, "REPORTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks/some_speed.py"])
    harness.publish("a table", False, "Speed", "Title.\n\n    command\n")
    assert not list(tmp_path.iterdir())
    harness.publish("a table", True, "Speed", "Title.\n\n    command\n", "-128")
    (report,) = tmp_path.iterdir()
    assert report.name.endswith("-some-speed-128.md")
    assert report.read_text().splitlines()[2:] == ["    command", "", "a table"]
    assert "a table" in capsys.readouterr().out


def run_gpu_benchmark(device, folder):
    """The sections of a smoke test, and its Markdown."""
    for package in ("transformers", "triton"):
        pytest.importorskip(package)
    command = [sys.executable, FOLDER / "gpu.py", "--device", device, "--smoke", "--output", folder]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = {path.suffix: path.read_text("utf-8") for path in folder.iterdir()}
    sections = json.loads(found[".json"])["sections"]
    assert not {name: s["error"] for name, s in sections.items() if s["error"] or not s["rows"]}
    assert all(row["right"] for row in sections["kernels"]["rows"])
    return sections, found[".md"]


@pytest.mark.slow
def test_every_section_of_the_gpu_benchmark_runs_on_a_cpu(tmp_path):
    sections, text = run_gpu_benchmark("cpu", tmp_path)
    rows = sections["speed"]["rows"]
    measured = {row["variant"] for row in rows if "failure" not in row}
    assert measured == {"eager", "compiled", "without attention kernel", "unmeasured paths"}
    assert {(row["variant"], row["failure"]) for row in rows if "failure" in row} == {
        (variant, "RuntimeError: CUDA graphs: none, since the device is cpu")
        for variant in ("graphed", "compiled, graphed")
    }
    assert all(row["same bits"] for row in sections["determinism"]["rows"])
    assert all(f"## {section['title']}" in text for section in sections.values())


@pytest.mark.gpu
def test_updates_in_the_gpu_benchmark_do_not_synchronize(tmp_path):
    sections, _ = run_gpu_benchmark("cuda", tmp_path)
    rows = [row for row in sections["speed"]["rows"] if not row["program"].startswith("HF ")]
    assert not [row["failure"] for row in rows if "failure" in row]
    assert rows and not [row["at"] for row in rows if row["synchronizations"]]


@pytest.mark.parametrize("task", ["mlm", "rtd"])
def test_padded_batches_of_the_gpu_benchmark_predict_tokens_only(task):
    batch = make_batch(task, Shape(16, 4096, 100), padded=True)
    assert not batch.inputs.padding.flatten()[batch.selected].any()
    assert batch.tokens == int((~batch.inputs.padding).sum())


def test_numbers_beyond_the_range_of_a_format_are_right_if_they_are_infinite():
    exact = torch.tensor([1e5, -1e5, 2.0], dtype=torch.float64)
    assert greatest_error(exact.half(), exact) == 0.0
    assert greatest_error(exact.half().neg(), exact) == float("inf")
    assert greatest_error(torch.tensor([float("inf")]).half(), exact[2:]) == float("inf")


def test_report_is_written_after_every_row(tmp_path):
    facts = {"title": "T", "date": "today", "command": "run", "description": "Text."}
    report = gpu_report.Report(tmp_path, "name", facts)
    report.begin("env", "Environment")
    report.add("env", {"what": "torch", "value": "2"})
    assert json.loads((tmp_path / "name.json").read_text())["sections"]["env"]["rows"]
    assert "| torch | 2 |" in (tmp_path / "name.md").read_text()
