import json
import resource
import sys
from types import SimpleNamespace

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.runs import read_log
from toolkit.reporting.sinks import RUN_ID_FILE, JsonLinesSink, TensorBoardSink, WandbSink


def updates(path):
    return [record["update"] for record in read_log(path)]


def test_json_lines_sink_writes_each_record_at_once(tmp_path):
    sink = JsonLinesSink(tmp_path / "run" / "metrics.jsonl")
    sink.write("train", {"update": 5, "loss": 2.5})
    line = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert json.loads(line) == {"event": "train", "update": 5, "loss": 2.5}


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
    assert read_log(path) == []


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
    tracebacks = []
    monkeypatch.setattr("threading.excepthook", tracebacks.append)
    sink = TensorBoardSink(tmp_path)

    def fail(writer, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", fail)
    for update in range(50):
        sink.write("train", {"update": update, "loss": 1.0})
    sink.close()
    assert not tracebacks
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


class WandbError(Exception):
    """Fake of wandb.Error."""


@pytest.fixture
def wandb(monkeypatch):
    """A fake of wandb that records its calls."""
    module = SimpleNamespace(starts=[], logs=[], metrics=[], finished=0, Error=WandbError)

    def finish():
        module.finished += 1

    def init(**options):
        module.starts.append(options)
        return SimpleNamespace(
            id=options["id"] or f"id{len(module.starts)}",
            log=module.logs.append,
            finish=finish,
            define_metric=lambda name, **more: module.metrics.append((name, more)),
        )

    module.init, module.Settings = init, lambda **options: options
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb_sink_logs_metrics_over_updates(wandb, tmp_path):
    sink = WandbSink("novels", tmp_path, {"arch": {"name": "bert"}})
    sink.write("train", {"update": 5, "loss": 2.5, "note": "text"})
    sink.write("valid", {"update": 5, "subset": "test", "loss": 2.0})
    sink.write("save", {"update": 5, "seconds": 1.0})
    assert wandb.logs == [{"update": 5, "train/loss": 2.5}, {"update": 5, "valid/test/loss": 2.0}]
    assert wandb.metrics == [("update", {}), ("*", {"step_metric": "update"})]
    start = wandb.starts[0]
    assert (start["project"], start["name"], start["id"]) == ("novels", tmp_path.name, None)
    assert start["config"] == {"arch": {"name": "bert"}} and start["settings"]["console"] == "off"


def test_wandb_sink_of_a_resumed_run_continues_its_wandb_run(wandb, tmp_path):
    first = WandbSink("novels", tmp_path, {})
    records = [{"event": "train", "update": u, "loss": 1.0} for u in (2, 4, 6)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    first.close()
    second = WandbSink("novels", tmp_path, {}, resumed_at=4)
    for update in (6, 8):
        second.write("train", {"update": update, "loss": 1.0})
    assert wandb.starts[1]["id"] == "id1" and wandb.starts[1]["resume"] == "allow"
    assert [log["update"] for log in wandb.logs] == [8]


@pytest.mark.parametrize(("project", "resumed_at"), [("novels", 0), ("another", 4)])
def test_wandb_sink_of_a_new_run_or_project_starts_a_new_wandb_run(
    wandb, tmp_path, project, resumed_at
):
    WandbSink("novels", tmp_path, {})
    WandbSink(project, tmp_path, {}, resumed_at=resumed_at)
    assert wandb.starts[1]["id"] is None
    assert json.loads((tmp_path / RUN_ID_FILE).read_text()) == {"project": project, "run": "id2"}


def test_wandb_sink_without_wandb_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ToolkitError, match=r"requires wandb, which is not installed. Run pip inst"):
        WandbSink("novels", tmp_path, {})


def test_wandb_sink_reports_an_error_of_the_service(wandb, monkeypatch, tmp_path):
    def init(**options):
        raise WandbError("no API key")

    monkeypatch.setattr(wandb, "init", init)
    with pytest.raises(
        ToolkitError, match=r"W&B rejects .*: no API key. Run wandb login, or set WANDB_M"
    ):
        WandbSink("novels", tmp_path, {})
