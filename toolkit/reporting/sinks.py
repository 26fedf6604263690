"""Sinks of a run's metrics: JSON lines, TensorBoard, Weights & Biases, the console.

Only the main process has sinks. When a run resumes, its sinks drop what was reported after the
update of the checkpoint, so that no update appears twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from toolkit.common import json_files
from toolkit.common.errors import RUN_EVENTS, ToolkitError
from toolkit.common.files import atomic_file, open_unlinked
from toolkit.common.json_files import JsonObject, read_json, write_json
from toolkit.reporting.console import TrainingConsole as TrainingConsole
from toolkit.reporting.runs import METRICS_FILE, EventValues, read_log, to_scalars

log = logging.getLogger(__name__)


@runtime_checkable
class Sink(Protocol):
    """A destination of the metrics and events of a run."""

    def write(self, event: str, values: EventValues) -> None:
        """Report the values of one event: start, train, valid, save, end, that of a callback."""
        ...

    def close(self) -> None: ...


class MultiSink:
    """Several sinks as one."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.sinks = list(sinks)

    def write(self, event: str, values: EventValues) -> None:
        for sink in self.sinks:
            sink.write(event, values)

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


class JsonLinesSink:
    """One JSON object per line, written before the next update; NaN is the string "NaN"."""

    def __init__(self, path: Path, *, resumed_at: int = 0) -> None:
        self.path, self.pending, self.warned = path, b"", False
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            kept = [r for r in read_log(path) if r.get("update", 0) <= resumed_at > 0]
            with atomic_file(path) as temporary:
                lines = "".join(json_files.dumps(record) + "\n" for record in kept)
                temporary.write_text(lines, encoding="utf-8")
        self.file = open_unlinked(path, "ab", buffering=0)

    def write(self, event: str, values: EventValues) -> None:
        self.pending += json_files.dumps({"event": event, **values}).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write pending lines. If the disk is full they stay in memory, and training continues."""
        warned, self.warned = self.warned, False
        try:
            while self.pending:
                self.pending = self.pending[self.file.write(self.pending) :]
        except OSError as error:
            self.warned = True
            if not warned:
                log.warning("%s cannot be written (%s); they stay in memory.", self.path, error)

    def close(self) -> None:
        if not self.file.closed:
            self.flush()
            self.file.close()


def hide_writer_errors(hook: Callable[[Any], object], error: Any) -> None:
    """For `threading.excepthook`: TensorBoard's thread also stores its error, which is reported."""
    if not type(error.thread).__module__.startswith("tensorboard."):
        hook(error)


class TensorBoardSink:
    """Metrics as scalars: train/loss, valid/loss, valid/test/loss.

    If the disk is full, reporting stops, and training continues.
    """

    def __init__(self, folder: Path | str, *, resumed_at: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        self.folder, self.has_failed = folder, False
        threading.excepthook = partial(hide_writer_errors, threading.excepthook)
        # os.makedirs would recurse without end if the name is too long
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.writer = SummaryWriter(str(folder), purge_step=resumed_at + 1)

    def write(self, event: str, values: EventValues) -> None:
        if event in RUN_EVENTS or self.has_failed:
            return
        with self.stop_if_failing():
            for name, value in to_scalars(event, values).items():
                self.writer.add_scalar(name, value, values.get("update"))
            self.writer.flush()

    def close(self) -> None:
        with self.stop_if_failing():
            self.writer.close()

    @contextmanager
    def stop_if_failing(self) -> Iterator[None]:
        """Warn of the first error."""
        try:
            yield
        except OSError as error:
            if not self.has_failed:
                reason = error.strerror or error
                log.warning("%s cannot be written (%s); it ends here.", self.folder, reason)
            self.has_failed = True


RUN_ID_FILE = "wandb.json"  # in the save folder: the id of the W&B run


class WandbSink:
    """Metrics as train/loss, valid/loss, ... over `update`.

    A resumed run continues the same W&B run. W&B cannot delete, so updates that the log shows as
    reported are not sent again: create this sink before the log is truncated.
    """

    def __init__(
        self, project: str, folder: Path, options: Mapping[str, object], *, resumed_at: int = 0
    ) -> None:
        before = read_run_id(folder, project) if resumed_at else None
        log = folder / METRICS_FILE
        earlier = read_log(log) if before and log.exists() else []
        reported = [record for record in earlier if record.get("update", 0) > resumed_at]
        self.sent = {tuple(map(it.get, ("event", "subset", "update"))) for it in reported}
        self.run = start_wandb_run(project, folder, options, before)
        self.run.define_metric("update")
        self.run.define_metric("*", step_metric="update")
        write_json(folder / RUN_ID_FILE, {"project": project, "run": self.run.id})

    def write(self, event: str, values: EventValues) -> None:
        update = values.get("update")
        if event not in RUN_EVENTS and (event, values.get("subset"), update) not in self.sent:
            self.run.log({"update": update, **to_scalars(event, values)})

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()
        self.run = None


def start_wandb_run(
    project: str, folder: Path, options: Mapping[str, object], before: str | None
) -> Any:
    """A new W&B run, or the one with this id."""
    try:
        import wandb
    except ImportError as error:
        raise ToolkitError(
            "logging.wandb_project requires wandb, which is not installed. "
            "Run pip install 'toolkit-seq[wandb]', or leave the option out."
        ) from error
    try:
        return wandb.init(
            project=project,
            name=folder.name,
            dir=str(folder),
            config=dict(options),
            id=before,
            resume="allow" if before else None,
            settings=wandb.Settings(console="off"),  # keeps the progress bar intact
        )
    except wandb.Error as error:
        raise ToolkitError(
            f"W&B rejects logging.wandb_project {project}: {error}. Run wandb login, "
            f"or set WANDB_MODE=offline."
        ) from error


def read_run_id(folder: Path, project: str) -> str | None:
    """The id of the W&B run of this save folder, if it is in the same project."""
    try:
        saved = read_json(folder / RUN_ID_FILE, JsonObject, "")
    except ToolkitError:
        return None
    run = saved.get("run") if saved.get("project") == project else None
    return run if isinstance(run, str) else None
