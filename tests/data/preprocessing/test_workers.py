import os
import time
from dataclasses import replace

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing import workers as module
from toolkit.data.preprocessing.binarize import PartTask
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.text_files import FileChunk

CONFIG = PreprocessConfig(trainpref="x", sentencepiece_megabytes=0.0)


@pytest.fixture
def tasks(text_file, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    paths = [text_file("the river\n" * n, f"{n}.txt") for n in (1, 9, 4)]
    pieces = [FileChunk(path, 0, path.stat().st_size, True) for path in paths]
    return [PartTask("train", number, [piece]) for number, piece in enumerate(pieces)]


@pytest.mark.parametrize("number", [1, 2])
def test_results_come_in_the_order_of_the_tasks(number, tasks, tmp_path):
    seen = []
    with WorkerPool(number, CONFIG) as workers:
        found = workers.binarize(tasks, tmp_path, lambda *now: seen.append(now))
    assert [task.number for task, _ in found] == [0, 1, 2]
    assert [result["train"]["part"]["items"] for _, result in found] == [1, 9, 4]
    assert sum(read for read, _ in seen) == 14 * len("the river\n")


@pytest.mark.parametrize("number", [1, 2])
def test_a_sample_without_bound_is_all_of_the_text(number, tasks):
    with WorkerPool(number, CONFIG) as workers:
        assert workers.sample([task.pieces for task in tasks]) == ["the river"] * 14


@pytest.mark.parametrize("number", [1, 2])
def test_a_sample_has_items_where_those_of_each_part_are_fewer_than_its_share_asks(number, tasks):
    config = replace(CONFIG, sentencepiece_megabytes=1e-6)  # a byte of 140
    with WorkerPool(number, config) as workers:
        assert 0 < len(workers.sample([task.pieces for task in tasks])) < 4


def test_a_worker_that_is_killed_is_told_and_what_to_do(tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "binarize", lambda *_: os._exit(9))
    expected = r"one was killed, most often for want of memory. Use fewer --workers"
    with pytest.raises(ToolkitError, match=expected), WorkerPool(2, CONFIG) as workers:
        workers.binarize(tasks, tmp_path, lambda *_: None)


def test_an_error_of_a_worker_reaches_the_user_and_stops_the_others(tasks, tmp_path):
    (tmp_path / "4.txt").write_bytes(b"\xff\n")
    with pytest.raises(ToolkitError, match=r"4.txt"), WorkerPool(2, CONFIG) as workers:
        workers.binarize(tasks, tmp_path, lambda *_: None)


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_made_of_items_comes_in_their_order(number):
    with WorkerPool(number, PreprocessConfig(trainpref="x")) as pool:
        assert pool.map(len, ["a" * n for n in (5, 1, 4)]) == [5, 1, 4]


@pytest.mark.parametrize("number", [1, 2])
def test_a_stream_reads_few_items_ahead_and_gives_all_in_their_order(number):
    read = []

    def items():
        for n in range(20):
            read.append(n)
            yield n

    with WorkerPool(number, CONFIG) as workers:
        found = workers.imap(str, items())
        assert next(found) == (0, "0")
        assert len(read) <= 1 + module.PREFETCH * number
        assert [*found] == [(n, str(n)) for n in range(1, 20)]


def test_a_stream_left_half_way_is_read_no_further():
    items = iter(range(10**9))
    with WorkerPool(2, CONFIG) as workers:
        next(workers.imap(str, items))
    assert next(items) <= 2 * module.PREFETCH + 1


def test_a_worker_of_a_stream_that_is_killed_is_told():
    with pytest.raises(ToolkitError, match="fewer --workers"), WorkerPool(2, CONFIG) as workers:
        list(workers.imap(os._exit, [9, 9]))


def test_a_worker_that_is_killed_before_more_work_is_given_out_is_told():
    with WorkerPool(2, CONFIG) as workers:

        def codes():
            yield 0
            workers._pool.submit(os._exit, 9)
            while not workers._pool._broken:
                time.sleep(0.01)
            yield 1

        with pytest.raises(ToolkitError, match="fewer --workers"):
            list(workers.imap(str, codes()))
