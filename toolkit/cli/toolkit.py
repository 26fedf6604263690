"""toolkit: all commands as subcommands, `toolkit train` for `toolkit-train`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import toolkit
from toolkit.cli.command import open_streams, report_errors
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import suggest_name
from toolkit.config.command import format_columns, wrap_paragraph

COMMANDS = {
    "preprocess": "turn text files into a data folder: tokenizer and binarized splits",
    "train": "train a model on data folders; with --seeds or --grid, compare several",
    "validate": "evaluate checkpoints: loss, perplexity, metrics of their task; minimal pairs",
    "predict": "labels, numbers, answers, options and tags for raw text",
    "generate": "translations, continuations, filled masks and word orders",
    "average": "average the weights of checkpoints",
    "inspect": "contents and integrity of data folders and checkpoints; FLOP counts",
    "plot": "learning curves, kernels, attention maps, confusion matrices, minimal pairs",
    "convert": "models from and to Hugging Face Transformers, and from fairseq",
}
"""Module of `toolkit.cli` -> its summary. A module is imported when its command runs."""
EXAMPLE = """\
  toolkit preprocess --trainpref book.txt --valid-fraction 0.03 --destdir data
  toolkit train data --arch taco_tiny --task mpm --max-update 1200 --save-dir run
  toolkit validate data --path run"""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the command, or 2 if there is no such command."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"] and words[1:2]:
        words = [words[1], "--help"]
    if words and words[0] in COMMANDS:
        return int(import_module(f"toolkit.cli.{words[0]}").main(words[1:]))
    open_streams()
    return report_errors("toolkit", lambda: answer(words))


def answer(words: Sequence[str]) -> int:
    """Print help or version; raises ToolkitError if the first word is no command."""
    if not words or words[0] in ("-h", "--help", "help"):
        parts = [
            "usage: toolkit COMMAND [options]",
            wrap_paragraph(toolkit.__doc__.partition("\n")[0]),
            f"COMMAND:\n{format_columns(COMMANDS.items())}",
            f"From text to a trained model:\n{EXAMPLE}",
            wrap_paragraph(
                "toolkit COMMAND --help shows the options of each, toolkit train --list archs the "
                "architectures. toolkit-train, toolkit-validate and so on are the same commands."
            ),
        ]
        print("\n\n".join(parts))
    elif words[0] == "--version":
        print(f"toolkit {toolkit.__version__}")
    else:
        hint = suggest_name(words[0].removeprefix("toolkit-"), list(COMMANDS))
        raise ToolkitError(f"no command is called {words[0]!r}. {hint} See toolkit --help.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
