"""toolkit-convert: models from and to Transformers, from fairseq, to ONNX and to BabyLM."""

from toolkit.cli.command import program
from toolkit.config.command import Command, CommandGroup
from toolkit.config.commands.checkpoints import BabylmConfig, ExportConfig, ImportConfig, OnnxConfig

DIRECTIONS = (
    Command(
        name="toolkit-convert import",
        summary="Turn a BERT, ELECTRA, ConvBERT, DeBERTa (v2, v3) or ModernBERT folder of Hugging "
        "Face Transformers, or a RoBERTa checkpoint of fairseq (.pt), into a checkpoint. Nothing "
        "is downloaded.",
        example="toolkit-convert import bert-base-uncased bert",
        config=ImportConfig,
        act="toolkit.conversion.convert:convert",
    ),
    Command(
        name="toolkit-convert export",
        summary="Write a checkpoint as a folder for Hugging Face Transformers.",
        example="toolkit-convert export run/checkpoint_best exported",
        config=ExportConfig,
        act="toolkit.conversion.convert:convert",
    ),
    Command(
        name="toolkit-convert babylm",
        summary="Write an entry to the BabyLM challenge of 2025: the final model and those after "
        "1M, 2M, ... words as folders for Hugging Face Transformers, their model cards, and the "
        "file of predictions. What is there already is kept.",
        example="toolkit-convert babylm run entry --predictions answers --results full.jsonl "
        "fast.jsonl --fine-tuned glue",
        config=BabylmConfig,
        act="toolkit.conversion.babylm:write_entry",
    ),
    Command(
        name="toolkit-convert onnx",
        summary="Write a checkpoint as a graph for ONNX Runtime.",
        example="toolkit-convert onnx run/checkpoint_best graph",
        config=OnnxConfig,
        act="toolkit.conversion.convert:convert",
    ),
)
COMMAND = CommandGroup(
    name="toolkit-convert",
    summary="Convert models from and to Hugging Face Transformers, from fairseq, and to ONNX. The "
    "tokenizer is included. No code of the model is executed, and nothing is written unless every "
    "tensor is accounted for.",
    example="toolkit-convert import bert-base-uncased bert",
    metavar="DIRECTION",
    commands={command.name.split()[-1]: command for command in DIRECTIONS},
)
main = program(COMMAND, __name__)
