import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from toolkit.sweep.jobs import BUSY_MESSAGE, SweepJob, run_all


def job(folder, name, command):
    return SweepJob(name=name, command=["sh", "-c", command], folder=folder / name)


def ended(jobs, slots=({},)):
    """How each job ended, and the most that ran at the same time."""
    last, most = {}, [0]

    def watch(running, done):
        last.update(done)
        most[0] = max(most[0], len(running))

    assert run_all(jobs, list(slots), watch) == 0
    return last, most[0]


def test_a_failed_job_reports_its_last_log_line(tmp_path):
    jobs = [
        job(tmp_path, "bad", "echo fine; echo it broke >&2; echo; exit 3"),
        job(tmp_path, "good", "echo done"),
    ]
    found, most = ended(jobs)
    assert (found["bad"].exit_code, found["bad"].reason) == (3, "it broke")
    assert (found["good"].exit_code, found["good"].reason) == (0, "")
    assert (tmp_path / "good" / "log.txt").read_text() == "done\n"
    assert most <= 1  # 0 where both were over before anybody looked


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (9, "killed by SIGKILL, as the system does when it runs out of memory"),
        (40, "killed by signal 40"),
    ],
)
def test_a_job_killed_by_the_system_has_failed(tmp_path, number, reason):
    found, _ = ended([job(tmp_path, "killed", f"kill -{number} $$")])
    assert not found["killed"].signaled
    assert found["killed"].reason == reason


def test_each_slot_sets_the_environment_of_its_jobs(tmp_path):
    meet = "echo $GPU; touch ../met{0}; until [ -e ../met{1} ]; do sleep 0.01; done"
    jobs = [
        job(tmp_path, str(n), f"cd {tmp_path / str(n)}; {meet.format(n, 1 - n)}") for n in (0, 1)
    ]
    ended(jobs, [{"GPU": "4"}, {"GPU": "7"}])
    assert [(tmp_path / str(n) / "log.txt").read_text() for n in range(2)] == ["4\n", "7\n"]


def test_a_job_runs_in_its_own_session(tmp_path):
    ended([job(tmp_path, "a", f"{sys.executable} -c 'import os; print(os.getsid(0))'")])
    assert int((tmp_path / "a" / "log.txt").read_text()) != os.getsid(0)


def test_a_job_whose_folder_is_locked_is_not_started(tmp_path):
    (tmp_path / "a").mkdir()
    with open(tmp_path / "a" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found, _ = ended([job(tmp_path, "a", "echo started")])
    assert found["a"].reason == BUSY_MESSAGE
    assert not (tmp_path / "a" / "log.txt").read_text()


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


def test_a_second_signal_kills_running_jobs(tmp_path):
    wait = "i=0; while [ $i -lt 300 ]; do sleep 0.05; i=$((i + 1)); done"
    deaf, last = job(tmp_path, "deaf", f"trap 'echo asked' TERM; echo up; {wait}"), {}
    log = tmp_path / "deaf" / "log.txt"

    def interrupt():
        for said in ("up", "asked"):
            while not (log.exists() and said in log.read_text()):
                time.sleep(0.02)
            time.sleep(0.4)  # several looks at what runs
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert run_all([deaf], [{}], lambda running, done: last.update(done)) == signal.SIGINT
    assert log.read_text() == "up\nasked\n" and last["deaf"].exit_code == -signal.SIGKILL


def test_a_job_survives_a_killed_sweep_and_keeps_its_lock(tmp_path):
    program = (
        "from pathlib import Path; from toolkit.sweep.jobs import *; import os, sys\n"
        "j = SweepJob(name='a', command=['sleep', '60'], folder=Path(sys.argv[1]))\n"
        "print(start_job(j, {}).process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    out = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, check=False
    )
    again, _ = ended([SweepJob(name="a", command=["true"], folder=tmp_path)])
    os.kill(int(out.stdout), signal.SIGKILL)
    assert again["a"].reason == BUSY_MESSAGE
