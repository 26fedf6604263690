"""toolkit-validate: metrics of checkpoints on the splits of data folders."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.cli.command import program
from toolkit.config.command import Command
from toolkit.config.commands.checkpoints import CompletionsConfig, ValidateConfig
from toolkit.config.commands.generate import AcquisitionConfig, ReadingTimesConfig
from toolkit.config.values import read_words


def choose_command(argv: Sequence[str]) -> Command:
    """Of --task or --suite; other options of a task have its name before a dot."""
    flags = read_words(argv).flags
    for name, command in (("reading_times", READING_TIMES), ("age_of_acquisition", ACQUISITION)):
        if any(it.name == "task" and name in (it.text, *it.following) for it in flags):
            return command
    return COMPLETIONS if {flag.name for flag in flags} & {"task", "suite"} else COMMAND


COMMAND = Command(
    name="toolkit-validate",
    summary="Evaluate checkpoints: loss, perplexity and the metrics of the task over the full "
    "splits. The results do not depend on batch size and number of processes. Options of the task "
    "may differ from training if the model does not depend on them, and may have several values: "
    "--task.tokens-per-sample 128,256,512. --task completions evaluates them without "
    "fine-tuning, on BLiMP, EWoK and other sets of options; it has other options, which --task "
    "completions --help shows.",
    example="toolkit-validate data --path run/checkpoint_best --valid-subset valid,test "
    "--results-path metrics.json",
    config=ValidateConfig,
    act="toolkit.commands.validate:evaluate_checkpoints",
    variant=choose_command,
    overridden="task",
    common=("path", "valid_subset", "results_path", "max_tokens"),
)
COMPLETIONS = Command(
    name="toolkit-validate",
    summary="Evaluate checkpoints without fine-tuning, on minimal pairs such as BLiMP's and other "
    "sets of options: how often the right one is the most probable. For models that fill masks, "
    "predict the next token or translate. The files are read as they are.",
    example="toolkit-validate blimp/data --task completions --path run/checkpoint_best "
    "--results-path blimp.jsonl",
    config=CompletionsConfig,
    act="toolkit.commands.completions:evaluate_completions",
    common=("path", "suite", "scoring", "normalization", "limit", "results_path"),
)
READING_TIMES = Command(
    name="toolkit-validate",
    summary="Compare the surprisal of words with how people read them: what it adds to the "
    "prediction of each measure beyond length, frequency and the two words before.",
    example="toolkit-validate reading_data.csv --task reading_times --path run/checkpoint_best",
    config=ReadingTimesConfig,
    act="toolkit.commands.reading_times:evaluate_reading_times",
    common=("path", "scoring", "context", "measures", "results_path"),
)
ACQUISITION = Command(
    name="toolkit-validate",
    summary="Estimate how many words a run had seen when it learned each word, from the surprisals "
    "of its checkpoints, and compare the order with that of people.",
    example="toolkit-validate words.csv --task age_of_acquisition --path run",
    config=AcquisitionConfig,
    act="toolkit.commands.reading_times:evaluate_acquisition",
    common=("path", "scoring", "age", "results_path"),
)
main = program(COMMAND, __name__)
