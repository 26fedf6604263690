"""toolkit-convert: models from and to other programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import execute
from toolkit.config.command import Command
from toolkit.config.commands.convert import ConvertConfig
from toolkit.config.load import LoadedConfig

COMMAND = Command(
    name="toolkit-convert",
    summary="Make a checkpoint of a BERT, ELECTRA or ConvBERT folder of Hugging Face Transformers "
    "or of fairseq's RoBERTa, tokenizer included, or such a folder of a checkpoint. Nothing that "
    "comes with a model is run, and nothing is written unless every tensor has its place.",
    example="toolkit-convert bert-base-uncased bert --to toolkit",
    config=ConvertConfig,
    common=("to", "weights"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, convert, argv)


def convert(loaded: LoadedConfig) -> None:
    from toolkit.conversion.convert import convert

    convert(loaded.config)


if __name__ == "__main__":
    sys.exit(main())
