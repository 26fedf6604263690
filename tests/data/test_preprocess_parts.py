import json
import multiprocessing
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.common.folder_lock import FolderLock
from toolkit.config.commands.share import Share
from toolkit.data.formats.text import records
from toolkit.data.preprocess import preprocess
from toolkit.data.preprocessing.parts_folder import PartsFolder
from toolkit.data.storage.data_folder import DataFolder

CONTEXT = multiprocessing.get_context("fork")


@pytest.fixture
def run(tmp_path, monkeypatch, random_prose):
    """Preprocesses a text of nine parts with these options, into the folder `data`."""
    monkeypatch.setattr("toolkit.data.preprocessing.split_files.PART_BYTES", 2000)
    (tmp_path / "text.txt").write_text(random_prose(510), encoding="utf-8")
    given = {"trainpref": str(tmp_path / "text.txt"), "vocab_size": 45, "valid_fraction": 0.3}

    def run(**options):
        options = {**given, "destdir": str(tmp_path / "data"), "workers": 1, **options}
        preprocess(preprocess_config(**options))

    return run


def close(tmp_path, **options):
    preprocess(preprocess_config(destdir=str(tmp_path / "data"), close=True, **options))
    return DataFolder.open(tmp_path / "data")


def read_files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def kill_at_the_third_part(run, **options):
    """Write two parts, half of a third one, and end as by a lack of memory."""
    binarize, before = records.binarize, []

    def kill(task, *, folder, **others):
        before.append(task)
        if len(before) == 3:
            (folder / f"train.tokens.{task.number}.bin").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return binarize(task, folder=folder, **others)

    records.binarize = kill
    run(**options)


def test_killed_and_restarted_processes_write_the_folder_of_a_single_one(tmp_path, run, capfd):
    run(destdir=str(tmp_path / "single"))
    processes = [CONTEXT.Process(target=run, kwargs={"part": f"{n}/4"}) for n in (2, 3, 4)]
    killed = CONTEXT.Process(target=kill_at_the_third_part, args=(run,), kwargs={"part": "1/4"})
    for process in [killed, *processes]:
        process.start()
    for process in [killed, *processes]:
        process.join()
    assert [p.exitcode for p in [killed, *processes]] == [-signal.SIGKILL, 0, 0, 0]
    assert capfd.readouterr().err.count("trained ") == 2  # by the single one, and by the first
    with pytest.raises(ToolkitError, match=r"not complete: part 8 of train has not.*--part 1/4 to"):
        close(tmp_path)
    finished = tmp_path / "data.parts" / "part-1-of-4" / "train.0.json"
    written = finished.stat().st_mtime_ns
    run(part="1/4")
    assert finished.stat().st_mtime_ns == written
    output = capfd.readouterr().out
    assert "--part 1/4: wrote 1 of 3 parts; 2 were finished before\n" in output
    command = f"toolkit-preprocess --destdir {tmp_path / 'data'} --close"
    assert f"together: 9 of 9 parts. Make the data folder with: {command}\n" in output
    assert len(close(tmp_path).split("train").column("tokens").parts) == 9
    assert read_files(tmp_path / "data") == read_files(tmp_path / "single")
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "single", "data"}


@pytest.mark.parametrize("number", [2, 10])
def test_folder_does_not_depend_on_the_number_of_processes(tmp_path, run, number, capsys):
    run(destdir=str(tmp_path / "single"))
    for n in range(number):
        run(part=f"{n + 1}/{number}", workers=2 if number == 2 else 1)
    close(tmp_path)
    assert read_files(tmp_path / "data") == read_files(tmp_path / "single")
    idle = "--part 10/10: nothing to write, because there are fewer parts than processes"
    assert (idle in capsys.readouterr().out) == (number == 10)


def test_given_tokenizer_is_used_from_any_path(tmp_path, run):
    run(destdir=str(tmp_path / "single"))
    (tmp_path / "copy").symlink_to(tmp_path / "single")
    for part, name in (("1/2", "single"), ("2/2", "copy")):
        run(part=part, vocab_size=30000, tokenizer_from=str(tmp_path / name))
    assert close(tmp_path).fingerprint == DataFolder.open(tmp_path / "single").fingerprint


@contextmanager
def held_by_another_process(folder):
    """While another process holds the lock of the folder."""
    ready, release = CONTEXT.Event(), CONTEXT.Event()

    def hold():
        lock = FolderLock(folder)
        lock.acquire()
        ready.set()
        release.wait(60)

    process = CONTEXT.Process(target=hold)
    process.start()
    assert ready.wait(60)
    yield process.pid
    release.set()
    process.join()


def test_second_process_with_the_same_part_is_rejected(tmp_path, run):
    run(part="1/2")
    folder = PartsFolder(tmp_path / "data").records(Share(1, 2))
    with (
        held_by_another_process(folder) as holder,
        pytest.raises(
            ToolkitError,
            match=rf"using {folder}: process {holder} on .* stop it, or give another --part\.$",
        ),
    ):
        run(part="1/2")


def test_process_waits_for_the_tokenizer_until_the_timeout(tmp_path, run, caplog):
    caplog.set_level("INFO", "toolkit")
    (tmp_path / "data.parts").mkdir()
    with (
        held_by_another_process(tmp_path / "data.parts") as holder,
        pytest.raises(ToolkitError, match=r"or raise --tokenizer-timeout-seconds\.$"),
    ):
        run(part="1/2", tokenizer_timeout_seconds=0.1)
    assert f"waiting for the tokenizer from process {holder} on" in caplog.text
    run(part="1/2")
    with (
        held_by_another_process(tmp_path / "data.parts"),
        pytest.raises(ToolkitError, match=r"stop it, or close another --destdir\.$"),
    ):
        close(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "2/3"}, r"started with 2 processes, but --part counts 3. Give --part I/2, or "),
        ({"segment_by": "paragraphs"}, r"segment_by was 'lines' and is now 'paragraphs'. Give all"),
        ({"vocab_size": 40}, r"with other options: vocab_size was 45 and is now 40\. Give all"),
        ({"srcdict": "d"}, r"with a tokenizer trained on the text, but this process has --srcdict"),
        ({"validpref": "valid.txt", "valid_fraction": 0.0}, r"validpref was None and is now 'giv"),
    ],
)
def test_processes_with_other_options_are_rejected(tmp_path, run, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    Path("valid.txt").write_text("the old house\n")
    run(part="1/2")
    with pytest.raises(ToolkitError, match=f"{message}.*delete {tmp_path}/data.parts to start"):
        run(**{"part": "2/2", **options})


def test_processes_with_other_input_are_rejected(tmp_path, run):
    run(part="1/2")
    text = (tmp_path / "text.txt").read_text()
    (tmp_path / "text.txt").write_text(text.replace("house", "mouse"))
    with pytest.raises(ToolkitError, match="other files of trainpref: names, sizes or contents"):
        run(part="2/2")


def test_processes_with_another_given_tokenizer_are_rejected(tmp_path, run):
    for size in (40, 45):
        run(destdir=str(tmp_path / str(size)), vocab_size=size)
    run(part="1/2", tokenizer_from=str(tmp_path / "40"))
    message = r"another tokenizer than --tokenizer-from: their vocabularies differ. Give all"
    with pytest.raises(ToolkitError, match=message):
        run(part="2/2", tokenizer_from=str(tmp_path / "45"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"valid_fraction": 0.2}, "set of options"),
        ({"trainpref": "other"}, "input"),
        ({"tokenizer_from": "40"}, "tokenizer"),
    ],
)
def test_parts_of_other_machines_are_checked_when_the_folder_is_closed(
    tmp_path, run, monkeypatch, options, what
):
    monkeypatch.chdir(tmp_path)
    Path("other").write_text(Path("text.txt").read_text() + "the old house\n")
    for size in (40, 45):
        run(destdir=str(size), vocab_size=size)
    run(part="1/2", tokenizer_from="45")
    run(part="2/2", destdir="elsewhere", **{"tokenizer_from": "45", **options})
    Path("elsewhere.parts", "part-2-of-2").rename("data.parts/part-2-of-2")
    message = rf"part 1 of train was written with another {what}. Run --part 2/2 to the end"
    with pytest.raises(ToolkitError, match=message):
        close(tmp_path)


def test_damaged_part_is_reported_and_written_again(tmp_path, run):
    run(destdir=str(tmp_path / "single"))
    run(part="1/2"), run(part="2/2")
    (tmp_path / "data.parts" / "data" / "train.tokens.3.bin").write_bytes(b"")
    with pytest.raises(ToolkitError, match=r"because 1 of 9 parts are not complete.*--part 2/2 to"):
        close(tmp_path)
    run(part="2/2")
    close(tmp_path)
    assert read_files(tmp_path / "data") == read_files(tmp_path / "single")


@pytest.mark.parametrize("name", ["plan.json", "data/sentencepiece.model"])
def test_damaged_plan_is_reported(tmp_path, run, name):
    run(part="1/1")
    path = tmp_path / "data.parts" / name
    path.write_bytes(path.read_bytes().replace(b"e", b"f", 1))
    for again in (lambda: run(part="1/1"), lambda: close(tmp_path)):
        with pytest.raises(ToolkitError, match=rf"{path} must .* Delete {tmp_path}/data.parts to"):
            again()


def test_existing_folder_is_replaced_when_the_new_one_is_closed(tmp_path, run):
    run()
    before = DataFolder.open(tmp_path / "data").fingerprint
    with pytest.raises(ToolkitError, match="holds a data folder already"):
        run(part="1/1")
    run(part="1/1", vocab_size=40, overwrite=True)
    assert DataFolder.open(tmp_path / "data").fingerprint == before
    with pytest.raises(ToolkitError, match="holds a data folder already"):
        close(tmp_path)
    assert close(tmp_path, overwrite=True).fingerprint != before
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "data"}


def test_folder_without_parts_cannot_be_closed(tmp_path):
    with pytest.raises(ToolkitError, match=f"No parts to close: {tmp_path}/data.parts. Run toolk"):
        close(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trainpref": "-"}, r"--part requires files .*, but trainpref is standard input \(-\)\."),
        ({"format": "squad"}, r"--part requires --format text; --format squad is written by a si"),
    ],
)
def test_input_that_several_processes_cannot_share_is_rejected(tmp_path, options, message):
    options = {"trainpref": "a", "destdir": str(tmp_path / "data"), "part": "1/2", **options}
    with pytest.raises(ToolkitError, match=message):
        preprocess(preprocess_config(**options))
    assert not any(tmp_path.iterdir())


def test_json_has_the_counts_of_a_share_and_of_the_folder(tmp_path, run):
    tokens = 0
    for part in ("1/2", "2/2"):
        run(part=part, json=str(tmp_path / "share.json"))
        (share,) = map(json.loads, (tmp_path / "share.json").read_text().splitlines())
        assert (share["event"], share["part"]) == ("share", part)
        tokens += share["tokens"]
    close(tmp_path, json=str(tmp_path / "closed.json"))
    *splits, closed = map(json.loads, (tmp_path / "closed.json").read_text().splitlines())
    assert tokens == closed["tokens"] == sum(split["tokens"] for split in splits)
    assert (closed["event"], closed["parts"], closed["processes"]) == ("close", 9, 2)
