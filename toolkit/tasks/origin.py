"""What a learner was built from."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from toolkit.common.registry import CRITERIA
from toolkit.config.load import compose
from toolkit.config.sections import ComponentConfig, RunConfig
from toolkit.criteria import Criterion
from toolkit.models.interface import Sizes


class Origin(NamedTuple):
    """Architecture, task and sizes, by which a learner is built again."""

    arch: ComponentConfig
    task: ComponentConfig
    sizes: Sizes
    run: RunConfig | None = None
    """The training run, if the learner is that of a checkpoint."""

    def to_run(self) -> RunConfig:
        """The run, or one with default training options."""
        run = self.run or compose({"arch": self.arch.name, "task": self.task.name})
        return replace(run, arch=self.arch, task=self.task)

    def make_criterion(self) -> Criterion:
        """The criterion of the run, or the task's default."""
        config = self.to_run().criterion
        criterion: Criterion = CRITERIA[config.name].factory(config.config)
        return criterion
