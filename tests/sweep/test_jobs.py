import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from toolkit.reporting.console import Console, TrainingConsole
from toolkit.sweep import jobs
from toolkit.sweep.jobs import (
    SweepJob,
    SweepProgress,
    allocate_slots,
    run_all,
)

HOLD = """
import sys, time
from pathlib import Path
from toolkit.common.system import FolderLock
lock = FolderLock(Path(sys.argv[1]))
lock.acquire()
print("locked", flush=True)
sys.stdin.readline()
"""
LOOP = "i=0; while [ $i -lt 300 ]; do sleep 0.05; i=$((i + 1)); done"  # ends even if orphaned
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def job(folder, name, command="true", **ended):
    return SweepJob(name=name, command=["sh", "-c", command], folder=folder / name, **ended)


def ended(jobs, slots=({},)):
    """The result of each job, and the maximum number that ran at the same time."""
    results, parallel = {}, [0]

    def observe(running, done):
        results.update(done)
        parallel[0] = max(parallel[0], len(running))

    assert run_all(jobs, list(slots), observe) == 0
    return results, parallel[0]


def is_up(log):
    return log.exists() and "up" in log.read_text()


def test_a_failed_job_reports_its_last_log_line(tmp_path):
    jobs = [
        job(tmp_path, "bad", "echo fine; echo it broke >&2; echo; exit 3"),
        job(tmp_path, "good", "echo done"),
    ]
    found, parallel = ended(jobs)
    assert (found["bad"].exit_code, found["bad"].reason) == (3, "it broke")
    assert (found["good"].exit_code, found["good"].reason) == (0, "")
    assert (tmp_path / "good" / "log.txt").read_text() == "done\n"
    assert parallel <= 1  # 0 if both ended before the callback was called


def test_a_job_killed_by_the_system_has_failed(tmp_path):
    found, _ = ended([job(tmp_path, "killed", "kill -9 $$")])
    reason = "killed by SIGKILL, as the system does when it runs out of memory"
    assert found["killed"].reason == reason


def test_each_slot_sets_the_environment_of_its_jobs(tmp_path):
    wait = "echo $GPU; touch ../up{0}; until [ -e ../up{1} ]; do sleep 0.01; done"
    jobs = [
        job(tmp_path, str(n), f"cd {tmp_path / str(n)}; {wait.format(n, 1 - n)}") for n in (0, 1)
    ]
    ended(jobs, [{"GPU": "4"}, {"GPU": "7"}])
    assert [(tmp_path / str(n) / "log.txt").read_text() for n in range(2)] == ["4\n", "7\n"]


def test_a_job_whose_folder_stays_locked_is_not_started(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "ENDING_SECONDS", 0.2)
    (tmp_path / "a").mkdir()
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "a"], **PIPES) as holder:
        holder.stdout.readline()
        found, _ = ended([job(tmp_path, "a", "echo started")])
        holder.communicate("end\n")
    assert found["a"].reason.startswith(f"Another run is using {tmp_path}/a: process {holder.pid}")
    assert not (tmp_path / "a" / "log.txt").exists()


@pytest.mark.slow
def test_a_signal_stops_running_jobs_and_starts_no_others(tmp_path):
    trap = "trap '{}echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    jobs = [
        job(tmp_path, "first", trap.format("")),
        job(tmp_path, "slow", trap.format("sleep 1; ")),
        job(tmp_path, "waiting", trap.format("")),
    ]
    logs = [tmp_path / name / "log.txt" for name in ("first", "slow")]

    def interrupt():
        while not all(log.exists() and log.read_text() for log in logs):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert run_all(jobs, [{}, {}], lambda running, done: None) == signal.SIGINT
    assert [log.read_text() for log in logs] == ["up\nsaved\n"] * 2
    assert not (tmp_path / "waiting").exists()


@pytest.mark.slow
def test_a_second_signal_kills_running_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr("toolkit.sweep.jobs.REPEAT_SECONDS", 0.2)
    deaf, last = job(tmp_path, "deaf", f"trap 'echo asked' TERM; echo up; {LOOP}"), {}
    log = tmp_path / "deaf" / "log.txt"

    def interrupt():
        for word in ("up", "asked"):
            while not (log.exists() and word in log.read_text()):
                time.sleep(0.02)
            time.sleep(0.4)  # longer than POLL_SECONDS
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert run_all([deaf], [{}], lambda running, done: last.update(done)) == signal.SIGINT
    assert log.read_text() == "up\nasked\n" and last["deaf"].exit_code == -signal.SIGKILL


@pytest.mark.slow
def test_a_job_that_does_not_end_with_its_sweep_keeps_its_lock(tmp_path, monkeypatch):
    program = (
        "from pathlib import Path; from toolkit.sweep.jobs import *; import os, sys, time\n"
        f"command = [sys.executable, '-c', {HOLD + 'time.sleep(60)'!r}, sys.argv[1]]\n"
        "job = SweepJob(name='a', command=command, folder=Path(sys.argv[1]))\n"
        "start_job(job, {}); process = job.process\n"
        "while not os.path.getsize(os.path.join(sys.argv[1], 'log.txt')): time.sleep(0.02)\n"
        "print(process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, check=False
    )
    monkeypatch.setattr(jobs, "ENDING_SECONDS", 0.5)
    again, _ = ended([SweepJob(name="a", command=["true"], folder=tmp_path)])
    pid = int(out.stdout)
    os.kill(pid, signal.SIGKILL)
    assert again["a"].reason.startswith(f"Another run is using {tmp_path}: process {pid}")


@pytest.mark.slow
def test_running_jobs_save_and_end_if_the_callback_raises(tmp_path):
    trap = "trap 'sleep {}; echo saved; exit 0' TERM; echo up; " + LOOP
    jobs = [job(tmp_path, "fast", trap.format(0)), job(tmp_path, "slow", trap.format(1))]
    logs = [tmp_path / name / "log.txt" for name in ("fast", "slow")]

    def print_progress(running, done):
        if all(map(is_up, logs)):
            raise BrokenPipeError

    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(BrokenPipeError):
        run_all([*jobs, job(tmp_path, "waiting", "true")], [{}, {}], print_progress)
    assert [log.read_text() for log in logs] == ["up\nsaved\n"] * 2
    assert not (tmp_path / "waiting").exists()
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.fixture
def gpus(monkeypatch):
    def have(count, visible=None):
        monkeypatch.setattr(jobs.torch.cuda, "device_count", lambda: count)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return have


def test_slots_keep_the_names_of_visible_gpus(gpus):
    gpus(2, "5,7")
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in allocate_slots(3, "cuda")] == ["5", "7", "5"]


def test_sweep_progress_shows_the_loss_of_what_runs_and_the_time_left_for_all(tmp_path):
    both = [job(tmp_path, "a"), job(tmp_path, "b")]
    with SweepProgress(both, total=3, console=Console(file=io.StringIO())) as watch:
        both[1].folder.mkdir()
        screen = Console(file=(both[1].folder / "log.txt").open("w"))
        for update in (1, 10):
            values = {"update": update, "epoch": 1, "loss": 50 / update}
            TrainingConsole(total_updates=40, console=screen).write("train", values)
        screen.file.close()
        watch(both[1:], {"a": job(tmp_path, "a", seconds=61.0)})
        text = watch.text(watch.started_at + 100)  # 100 s for 1.25 of 2 runs
    assert text == "2 of 3 runs, loss 5.000 at update 10/40, 1:00 left"


@pytest.mark.slow
def test_a_sweep_waits_for_the_end_of_a_job_of_a_killed_one(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], **PIPES)
    assert holder.stdout.readline() == "locked\n"
    threading.Timer(1.0, holder.communicate, ["\n"]).start()
    found, _ = ended(
        [SweepJob(name="a", command=["sh", "-c", "echo $TOOLKIT_PARENT"], folder=tmp_path)]
    )
    assert found["a"].exit_code == 0 and f"{os.getpid()}\n" == (tmp_path / "log.txt").read_text()
