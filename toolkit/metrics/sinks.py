"""Where the figures of a run go: a file of JSON lines, TensorBoard, the console.

Only the first rank has sinks. A sink that goes on with an earlier run forgets what that run
reported after the update it is resumed at, so that no update appears twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from toolkit.common import strict_json
from toolkit.common.errors import ToolkitError
from toolkit.metrics.console import Console as Console
from toolkit.metrics.records import Values, read_records, scalars, write_records

log = logging.getLogger(__name__)


@runtime_checkable
class Sink(Protocol):
    def write(self, event: str, values: Values) -> None:
        """Report the figures of one event: train, valid, save or end."""
        ...

    def close(self) -> None: ...


class Sinks:
    """Several sinks as one."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.sinks = list(sinks)

    def write(self, event: str, values: Values) -> None:
        for sink in self.sinks:
            sink.write(event, values)

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


class JsonLines:
    """One JSON object a line, each on disk before the next update; NaN is the string "NaN"."""

    def __init__(self, path: Path, *, resumed_at: int = 0) -> None:
        self.path, self.waiting, self.told = path, b"", False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                earlier = read_records(path)
                write_records(path, [r for r in earlier if r.get("update", 0) <= resumed_at > 0])
            self.file = path.open("ab", buffering=0)
        except OSError as error:
            raise ToolkitError(
                f"{path} must be writable, but {error.strerror}. Choose another --save-dir."
            ) from error

    def write(self, event: str, values: Values) -> None:
        self.waiting += strict_json.dumps({"event": event, **values}).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write what waits; where the disk is full it waits in memory, and training goes on."""
        told, self.told = self.told, False
        try:
            while self.waiting:
                self.waiting = self.waiting[self.file.write(self.waiting) :]
        except OSError as error:
            self.told = True
            if not told:
                log.warning("%s cannot be written (%s); its records wait.", self.path, error)

    def close(self) -> None:
        if not self.file.closed:
            self.flush()
            self.file.close()


class TensorBoard:
    """Numbers as scalars: train/loss, valid/loss, and valid/test/loss for a further subset."""

    def __init__(self, folder: Path | str, *, resumed_at: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import, seldom asked for

        try:
            self.writer = SummaryWriter(str(folder), purge_step=resumed_at + 1)
        except OSError as error:
            raise ToolkitError(
                f"logging.tensorboard_logdir must be writable, but {folder}: {error.strerror}. "
                f"Choose another folder."
            ) from error

    def write(self, event: str, values: Values) -> None:
        if event not in ("train", "valid"):
            return
        for name, value in scalars(event, values).items():
            self.writer.add_scalar(name, value, values.get("update"))
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
