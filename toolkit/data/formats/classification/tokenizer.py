"""The tokenizer of labeled texts, and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, digest_json, read_json, write_json
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import WrappedTokenizer, restore_inner
from toolkit.metrics.classification import CLASSIFICATION_METRICS, REGRESSION_METRICS

LABELS_FILE = "labels.json"


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels that a text or a pair may have."""

    task: str
    """GLUE's name of the task; tsv for your own tables."""
    classes: list[str]
    """Classes in the order of their ids; empty if the answer is a number."""
    metrics: list[str]
    """Metrics whose mean is the score."""
    pairs: bool
    """Whether a row has two texts."""
    bounds: list[float]
    """Minimum and maximum of the numbers; empty if unbounded."""

    @classmethod
    def of_classes(cls, classes: Sequence[str], *, pairs: bool = False) -> Labels:
        """Classes of your own, scored by accuracy; with `pairs` each row has two texts."""
        names = [] if isinstance(classes, str) else list(classes)
        if len(set(names)) < max(2, len(names)) or not all(isinstance(it, str) for it in names):
            raise ToolkitError(
                f"labels must be two or more different names of classes, but are {classes!r}."
            )
        return cls(task="tsv", classes=names, metrics=["accuracy"], pairs=pairs, bounds=[])

    @property
    def outputs(self) -> int:
        """Number of outputs of a model."""
        return len(self.classes) or 1

    @property
    def fingerprint(self) -> str:
        """Changes when ids mean other answers; independent of the task's name and its metrics."""
        return digest_json(self.classes)

    @classmethod
    def load(cls, folder: Path) -> Labels:
        """The labels of a data folder or a checkpoint."""
        return read_json(folder / LABELS_FILE, cls, "Run toolkit-preprocess again.")

    def __post_init__(self) -> None:
        known = CLASSIFICATION_METRICS if self.classes else REGRESSION_METRICS
        if not set(self.metrics) <= known.keys():
            raise ToolkitError(f"metrics: expected some of {', '.join(known)}")
        if len(self.bounds) not in (0, 2):
            raise ToolkitError("bounds: expected two numbers, or none")
        if len(self.classes) == 1 or len(set(self.classes)) < len(self.classes):
            raise ToolkitError("classes: expected none, or several that differ")


class ClassificationTokenizer(WrappedTokenizer):
    """Reads text as `inner` does, and has the labels."""

    kind = "classification"

    def __init__(self, inner: Tokenizer, labels: Labels) -> None:
        super().__init__(inner, LABELS_FILE)
        self.labels = labels

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "labels": self.labels.outputs}

    @property
    def fingerprint(self) -> str:
        return f"{self.vocabulary.fingerprint} {self.labels.fingerprint}"

    def save(self, folder: Path | str) -> None:
        super().save(folder)
        write_json(Path(folder) / LABELS_FILE, asdict(self.labels), indent=1)

    @classmethod
    def _restore(
        cls, folder: Path, settings: JsonObject, symbols: Sequence[str]
    ) -> ClassificationTokenizer:
        return cls(restore_inner(folder, settings, symbols), Labels.load(folder))
