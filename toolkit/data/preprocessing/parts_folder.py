"""DESTDIR.parts: what several processes with --part write before the data folder is closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.folder_lock import FolderInUseError, FolderLock
from toolkit.config.commands.share import Share
from toolkit.data.preprocessing.parts_plan import PartsPlan, read_plan, write_plan
from toolkit.data.tokenizers.tokenizer import Tokenizer

log = logging.getLogger(__name__)


class PartsFolder:
    """The folder next to a data folder in which several processes write it."""

    def __init__(self, destdir: Path) -> None:
        self.path = destdir.with_name(f"{destdir.name}.parts")
        self.data = self.path / "data"
        """Tokenizer and columns, which become the data folder."""
        self.plan_file = self.path / "plan.json"

    def records(self, share: Share) -> Path:
        """Folder for the lock of a process and the records of its parts."""
        return self.path / f"part-{share.number}-of-{share.processes}"

    def agree(
        self, plan: PartsPlan, choose: Callable[[], Tokenizer], timeout_seconds: float
    ) -> PartsPlan:
        """The plan of all processes, of which the first one chooses the tokenizer.

        The others wait for it; if it ends, the next one chooses. Raises if their plans differ.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        if not self.plan_file.exists():
            with self.lock("raise --tokenizer-timeout-seconds", timeout_seconds):
                if not self.plan_file.exists():
                    tokenizer = choose()
                    tokenizer.save(self.data)
                    write_plan(self.plan_file, plan, tokenizer, self.data)
        started = read_plan(self.plan_file)
        plan.check_same(started, self.path)
        return started

    def load_tokenizer(self, plan: PartsPlan) -> Tokenizer:
        plan.check_tokenizer(self.data)
        return Tokenizer.load(self.data)

    def check_given_tokenizer(self, tokenizer: Tokenizer, given: Tokenizer, option: str) -> None:
        """Raise if an option of this process names another tokenizer than that of the folder."""
        if difference := tokenizer.describe_difference(given):
            raise ToolkitError(
                f"{self.path} was started with another tokenizer than {option}: {difference}. "
                f"Give all processes the same, or delete {self.path} to start again."
            )

    def read_plan(self) -> PartsPlan:
        return read_plan(self.plan_file)

    def count_records(self) -> int:
        """Number of parts that have been finished by any process."""
        return sum(1 for _ in self.path.glob("part-*-of-*/[!.]*.json"))

    @contextmanager
    def lock_to_close(self) -> Iterator[None]:
        """Hold the folder, which must exist, to close it."""
        if not self.plan_file.exists():
            raise ToolkitError(
                f"No parts to close: {self.path}. Run toolkit-preprocess with --part first, or "
                f"correct --destdir."
            )
        with self.lock("close another --destdir"):
            yield

    @contextmanager
    def lock(self, remedy: str, timeout_seconds: float = 0.0) -> Iterator[None]:
        """Hold the folder, as one process does to choose the tokenizer or to close it."""
        lock = FolderLock(self.path, remedy)
        try:
            lock.acquire()
        except FolderInUseError as error:
            if not timeout_seconds:
                raise
            log.info("waiting for the tokenizer from %s", error.holder)
            lock.acquire(timeout_seconds=timeout_seconds)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def lock_share(self, share: Share) -> Iterator[Path]:
        """Hold the share, and yield the folder of its records."""
        folder = self.records(share)
        folder.mkdir(exist_ok=True)
        lock = FolderLock(folder, "give another --part")
        lock.acquire()
        try:
            yield folder
        finally:
            lock.release()
