import json
import sys
from types import SimpleNamespace

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.sinks import RUN_ID_FILE, WandbSink


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


def test_wandb_sink_with_a_damaged_id_file_starts_a_new_wandb_run(wandb, tmp_path):
    (tmp_path / RUN_ID_FILE).write_text("[")
    WandbSink("novels", tmp_path, {}, resumed_at=4)
    assert wandb.starts[0]["id"] is None


def test_wandb_sink_finishes_once(wandb, tmp_path):
    sink = WandbSink("novels", tmp_path, {})
    sink.close()
    sink.close()
    assert wandb.finished == 1


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


def test_wandb_sink_rejects_an_unwritable_id_file(wandb, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ToolkitError, match=r"wandb.json must be writable, but is not: Not a direct"
    ):
        WandbSink("novels", tmp_path / "file", {})
