"""toolkit-generate: what a trained model makes of new text."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.generate import GenerateConfig
from toolkit.config.load import Loaded

COMMAND = Command(
    name="toolkit-generate",
    summary="Read sentences and let a trained model answer them: a masked language model gives "
    "the most probable tokens for each [MASK], a masked position model also the most probable "
    "order of words (--order). It reads lines of standard input or of a file.",
    example='echo "The [MASK] rose over the hill." | toolkit-generate --task mlm '
    "--path run/checkpoint_best",
    config=GenerateConfig,
    common=("path", "task", "input", "top", "results_path"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, answer, argv)


def answer(loaded: Loaded) -> None:
    from toolkit.training.generate import generate

    generate(loaded.config)


if __name__ == "__main__":
    sys.exit(main())
