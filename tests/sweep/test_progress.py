import io

from toolkit.reporting.console import Console
from toolkit.sweep.jobs import JobResult, SweepJob
from toolkit.sweep.progress import SweepProgress


def job(folder, name):
    return SweepJob(name=name, command=["true"], folder=folder / name)


def watched(folder, *, terminal):
    """What is shown of one run that finishes and one that fails, of three altogether."""
    out, jobs = io.StringIO(), [job(folder, "a"), job(folder, "b")]
    screen = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    with SweepProgress(jobs, total=3, console=screen) as watch:
        watch(jobs, {})
        watch(jobs[1:], {"a": JobResult(0, 61.0, "")})
        watch([], {"a": JobResult(0, 61.0, ""), "b": JobResult(2, 5.0, "no such folder")})
    return out.getvalue()


def test_sweep_progress_without_a_terminal_prints_starts_and_ends(tmp_path):
    assert watched(tmp_path, terminal=False).splitlines() == [
        "1 of 3 runs are already finished",
        f"started   a (2/3), log in {tmp_path}/a/log.txt",
        f"started   b (3/3), log in {tmp_path}/b/log.txt",
        "finished  a in 1:01",
        "failed    b after 0:05: no such folder",
    ]


def test_sweep_progress_on_a_terminal_shows_a_bar_of_all_runs(tmp_path):
    shown = watched(tmp_path, terminal=True)
    assert "3 of 3 runs, 0 running" in shown
    assert "failed    b after 0:05: no such folder" in shown


def test_sweep_progress_reports_a_signaled_run_as_stopped(tmp_path):
    out = io.StringIO()
    with SweepProgress([job(tmp_path, "a")], total=1, console=Console(file=out)) as watch:
        watch([], {"a": JobResult(143, 3.0, "save  update 5")})
    assert out.getvalue() == "stopped   a after 0:03\n"
