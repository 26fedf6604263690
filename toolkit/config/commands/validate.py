"""Options of toolkit-validate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Processes
from toolkit.config.option_groups import (
    BatchOptions,
    OutputOptions,
    PrecisionOptions,
    WeightsOptions,
    check_distinct_files,
)
from toolkit.config.options import MULTI_WORD, NO_SPLIT
from toolkit.config.values import Overrides


@dataclass(frozen=True, kw_only=True)
class ValidateConfig(
    WeightsOptions,
    BatchOptions,
    PrecisionOptions,
    OutputOptions,
    required={
        "dirs": "Name a data folder to evaluate on, before --path.",
        "path": "--path is required: the checkpoints to evaluate.",
    },
):
    """Options of toolkit-validate."""

    POSITIONAL: ClassVar[str] = "dirs"

    dirs: list[str] = field(default_factory=list)
    """Data folders with the vocabulary of the checkpoints. Of shards, as in a:b, the first one that
    has the split."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best checkpoint. Each is evaluated."""
    valid_subset: str = "valid"
    """Splits to evaluate on, separated by commas."""
    results_path: str | None = None
    """File for all metrics as one JSON object: checkpoint, split, metric."""
    predictions: str | None = None
    """File for the predictions. pos_tagging: the split's own text with predicted tags, all else
    byte for byte (a folder, for a split of several files). span_tagging: the same with both tags,
    for conlleval. glue: a table, or a .zip to submit. squad: JSON of ids and texts (a folder also
    gets the n-best answers). multiple_choice: RACE's letters as JSON, SWAG's labels as CSV.
    translation: a line per pair."""
    num_workers: Processes = 1
    """Processes that prepare batches in advance (0: the main process does)."""
    task: Overrides = field(default_factory=Overrides)

    def __post_init__(self) -> None:
        super().__post_init__()
        splits = self.valid_subset.strip(", ")
        if not splits:
            raise ToolkitError("--valid-subset must name a split, but is empty.")
        if self.predictions is not None and (len(self.path) > 1 or "," in splits):
            raise ToolkitError(
                f"--predictions requires one checkpoint and one split, but there are "
                f"{len(self.path)} and {splits}. Run toolkit-validate for each."
            )
        for name, values in self.task.values.items():
            if self.predictions is not None and len(values) > 1:
                raise ToolkitError(
                    f"--predictions requires one value of task.{name}, but there are "
                    f"{', '.join(values)}. Run toolkit-validate for each."
                )
        metrics = None if self.json == "-" else self.json
        files = {"--results-path": self.results_path, "--predictions": self.predictions}
        check_distinct_files([("--json", metrics), *files.items()])

    @property
    def is_single(self) -> bool:
        """Whether one checkpoint is evaluated on one split with one value of every option."""
        several = [self.path, *self.task.values.values()]
        return max(map(len, several)) == 1 and "," not in self.valid_subset.strip(", ")
