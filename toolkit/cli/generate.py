"""toolkit-generate: what a trained model makes of new text."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.commands.generate import GenerateConfig
from toolkit.config.load import LoadedConfig

COMMAND = Command(
    name="toolkit-generate",
    summary="Read sentences and let a trained model answer them: a model of translation writes "
    "each in the other language, a language model writes on, a masked language model gives the "
    "most probable tokens for each [MASK], a masked position model also the most probable order of "
    "words (--order). It reads lines of standard input or of a file, or a split of data folders. "
    "--score SYSTEM REFERENCE compares two files instead.",
    example="toolkit-generate data-bin --path run/checkpoint_best --gen-subset test --beam 5",
    config=GenerateConfig,
    common=("path", "input", "gen_subset", "beam", "nbest", "lenpen", "results_path", "score"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, generate, argv)


def generate(loaded: LoadedConfig) -> None:
    from toolkit.commands.generate import generate

    generate(loaded.config)


if __name__ == "__main__":
    sys.exit(main())
