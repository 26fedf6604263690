"""Where the figures of a run go: a file of JSON lines, TensorBoard, the console.

Only the first rank has sinks. A sink that goes on with an earlier run forgets what that run
reported after the update it is resumed at, so that no update appears twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from toolkit.common import strict_json
from toolkit.common.errors import ToolkitError
from toolkit.metrics.console import Console as Console
from toolkit.metrics.records import Values, read_records, write_records


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
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                earlier = read_records(path)
                write_records(path, [r for r in earlier if r.get("update", 0) <= resumed_at > 0])
            self.file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise ToolkitError(
                f"{path} must be writable, but {error.strerror}. Choose another --save-dir."
            ) from error

    def write(self, event: str, values: Values) -> None:
        self.file.write(strict_json.dumps({"event": event, **values}) + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class TensorBoard:
    """Numbers as scalars: train/loss, valid/loss, and valid/test/loss for a further subset."""

    def __init__(self, folder: Path | str, *, resumed_at: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import, seldom asked for

        try:
            self.writer = SummaryWriter(str(folder), purge_step=resumed_at + 1)
        except OSError as error:
            raise ToolkitError(
                f"logging.tensorboard_logdir must be writable, but {folder}: {error.strerror}."
            ) from error

    def write(self, event: str, values: Values) -> None:
        if event not in ("train", "valid"):
            return
        subset = values.get("subset")
        prefix = event if subset in (None, "valid") else f"{event}/{subset}"
        update = values.get("update")
        for name, value in values.items():
            if name != "update" and isinstance(value, int | float):
                self.writer.add_scalar(f"{prefix}/{name}", value, update)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
