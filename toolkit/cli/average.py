"""toolkit-average: one checkpoint with the mean weights of several."""

from toolkit.cli.command import program
from toolkit.config.command import Command
from toolkit.config.commands.checkpoints import AverageConfig

COMMAND = Command(
    name="toolkit-average",
    summary="Average the weights of checkpoints, such as the last few of a run, which often "
    "predicts better than any of them. toolkit-validate, toolkit-generate and --finetune-from "
    "accept the result. It has no optimizer state, so no run can resume from it.",
    example="toolkit-average run --last 5 --kind epochs --output averaged",
    config=AverageConfig,
    act="toolkit.commands.average:average",
    common=("output", "last", "kind"),
)
main = program(COMMAND, __name__)
