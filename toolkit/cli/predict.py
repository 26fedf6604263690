"""toolkit-predict: labels, numbers, answers, options and tags for raw text."""

from toolkit.cli.command import program
from toolkit.config.command import Command
from toolkit.config.commands.checkpoints import PredictConfig

COMMAND = Command(
    name="toolkit-predict",
    summary="Apply a fine-tuned model to raw text: a class, number, answer span, option or tags "
    "for each input line, in order. toolkit-generate translates, continues texts and fills masks.",
    example="toolkit-predict --path run --input reviews.tsv --output labels.tsv",
    config=PredictConfig,
    act="toolkit.commands.predict:predict",
    common=("path", "input", "output", "input_format", "output_format", "text_columns"),
)
main = program(COMMAND, __name__)
