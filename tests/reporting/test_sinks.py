import json
import math
import resource

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.event_log import read_records
from toolkit.reporting.sinks import JsonLinesSink, MultiSink, TensorBoardSink


def updates(path):
    return [record["update"] for record in read_records(path)]


def test_json_lines_sink_writes_each_record_at_once(tmp_path):
    sink = JsonLinesSink(tmp_path / "run" / "metrics.jsonl")
    sink.write("train", {"update": 5, "loss": 2.5})
    line = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert json.loads(line) == {"event": "train", "update": 5, "loss": 2.5}


def test_json_lines_sink_writes_nan_as_valid_json(tmp_path):
    sink = JsonLinesSink(tmp_path / "metrics.jsonl")
    sink.write("train", {"update": 1, "loss": math.nan})
    strict = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail)
    assert strict["loss"] == "NaN"
    assert math.isnan(read_records(tmp_path / "metrics.jsonl")[0]["loss"])


def test_json_lines_sink_of_a_resumed_run_drops_later_updates(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 2}\n{"update": 4}\n{"update": 6}\n{"upd')
    sink = JsonLinesSink(path, resumed_at=4)
    sink.write("train", {"update": 6})
    assert updates(path) == [2, 4, 6]


def test_json_lines_sink_of_a_new_run_replaces_an_older_log(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"event": "start"}\n{"update": 0}\n{"update": 2}\n')
    JsonLinesSink(path)
    assert read_records(path) == []


def test_json_lines_sink_keeps_records_while_the_disk_is_full(tmp_path, caplog):
    path, before = tmp_path / "metrics.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    sink = JsonLinesSink(path)
    sink.write("train", {"update": 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 9, before[1]))
    try:
        for update in (2, 3):
            sink.write("train", {"update": update})
        assert updates(path) == [1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    sink.write("train", {"update": 4})
    sink.close()
    assert updates(path) == [1, 2, 3, 4]
    assert caplog.text.count("cannot be written ([Errno 27] File too large)") == 1


def test_json_lines_sink_rejects_an_unwritable_log(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolkitError, match=r"must be writable, but is not: .* another --save-dir"):
        JsonLinesSink(tmp_path / "file" / "metrics.jsonl")


def test_multi_sink_writes_to_every_sink(tmp_path):
    sinks = MultiSink([JsonLinesSink(tmp_path / "a.jsonl"), JsonLinesSink(tmp_path / "b.jsonl")])
    sinks.write("valid", {"update": 3, "subset": "valid"})
    sinks.close()
    assert (tmp_path / "a.jsonl").read_text() == (tmp_path / "b.jsonl").read_text() != ""


def test_tensorboard_sink_groups_metrics_by_event_and_subset(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sink = TensorBoardSink(tmp_path)
    sink.write("train", {"update": 1, "loss": 3.0, "note": "no number"})
    sink.write("valid", {"update": 1, "subset": "valid", "loss": 2.0})
    sink.write("valid", {"update": 1, "subset": "test", "loss": 1.0})
    sink.write("save", {"update": 1, "seconds": 0.5})
    sink.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert sorted(events.Tags()["scalars"]) == ["train/loss", "valid/loss", "valid/test/loss"]
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(1, 3.0)]


def test_tensorboard_stops_on_a_full_disk(tmp_path, monkeypatch, caplog):
    sink = TensorBoardSink(tmp_path)

    def fail():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sink.writer, "flush", fail)
    for update in (1, 2):
        sink.write("train", {"update": update, "loss": 1.0})
    sink.close()
    assert caplog.text.count("cannot be written (No space left on device); it ends here.") == 1


def test_tensorboard_sink_purges_updates_that_a_resumed_run_repeats(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for resumed_at, loss in ((0, 3.0), (1, 2.0)):
        sink = TensorBoardSink(tmp_path, resumed_at=resumed_at)
        for update in (resumed_at + 1, resumed_at + 2):
            sink.write("train", {"update": update, "loss": loss})
        sink.close()
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("train/loss")
    assert [(e.step, e.value) for e in events] == [(1, 3.0), (2, 2.0), (3, 2.0)]


def test_tensorboard_sink_rejects_a_name_that_is_too_long(tmp_path):
    with pytest.raises(ToolkitError, match=r"must be writable, but .* is not: File name too long"):
        TensorBoardSink(tmp_path / ("x/" * 3000))
