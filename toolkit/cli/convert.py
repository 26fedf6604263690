"""toolkit-convert: models from and to Hugging Face Transformers, and from fairseq."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.cli.command import call, execute
from toolkit.config.command import Command
from toolkit.config.commands.checkpoints import ConvertConfig

COMMAND = Command(
    name="toolkit-convert",
    summary="Convert a BERT, ELECTRA, ConvBERT, DeBERTa (v2, v3) or ModernBERT model of Hugging "
    "Face Transformers, or fairseq's RoBERTa, to a checkpoint; or any checkpoint to a folder for "
    "Transformers or to ONNX. The tokenizer is included. No code of the model is executed, and "
    "nothing is written unless every tensor is accounted for.",
    example="toolkit-convert run/checkpoint_best exported --to hf",
    config=ConvertConfig,
    common=("to", "classes", "weights"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run toolkit-convert; returns the exit code."""
    return execute(COMMAND, call("toolkit.conversion.convert:convert"), argv)


if __name__ == "__main__":
    sys.exit(main())
