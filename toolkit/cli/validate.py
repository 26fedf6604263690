"""toolkit-validate: metrics of checkpoints on the splits of data folders."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import call, execute
from toolkit.config.command import Command
from toolkit.config.commands.validate import ValidateConfig

COMMAND = Command(
    name="toolkit-validate",
    summary="Evaluate checkpoints: loss, perplexity and the metrics of the task over the full "
    "splits. The results do not depend on batch size and number of processes. Options of the task "
    "may differ from training if the model does not depend on them, and may have several values: "
    "--task.tokens-per-sample 128,256,512.",
    example="toolkit-validate data --path run/checkpoint_best --valid-subset valid,test "
    "--results-path metrics.json",
    config=ValidateConfig,
    misplaced_paths={
        "raw": "Run toolkit-preprocess --validpref {path}{options} --tokenizer-from RUN --destdir "
        "data, then toolkit-validate data.",
        "checkpoint": "Write --path {path}.",
    },
    overridden="task",
    common=("path", "valid_subset", "results_path", "max_tokens"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run toolkit-validate; returns the exit code."""
    return execute(COMMAND, call("toolkit.commands.validate:evaluate_checkpoints"), argv)


if __name__ == "__main__":
    sys.exit(main())
