"""toolkit-convert: models from and to Hugging Face Transformers, and from fairseq."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import call, execute
from toolkit.config.command import Command
from toolkit.config.commands.convert import ConvertConfig

COMMAND = Command(
    name="toolkit-convert",
    summary="Convert a BERT, ELECTRA or ConvBERT model of Hugging Face Transformers or fairseq's "
    "RoBERTa, including its tokenizer, to a checkpoint; or a checkpoint to Transformers. No code "
    "of the model is executed, and nothing is written unless every tensor is accounted for.",
    example="toolkit-convert bert-base-uncased bert --to toolkit",
    config=ConvertConfig,
    common=("to", "classes", "weights"),
)


def main(argv: Sequence[str] | None = None) -> int:
    return execute(COMMAND, call("toolkit.conversion.convert:convert"), argv)


if __name__ == "__main__":
    sys.exit(main())
