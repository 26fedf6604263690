"""toolkit-generate: translations, continuations, masked tokens and word order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.cli.command import program
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.command import CHECKPOINT_LINKS, Command, CommandGroup
from toolkit.config.commands.generate import (
    ContinueConfig,
    FillMaskConfig,
    OrderConfig,
    ScoreConfig,
    SurprisalConfig,
    TranslateConfig,
)
from toolkit.config.load import early_values, read_config_files
from toolkit.config.values import (
    get_value,
    locate_checkpoint,
    missing_checkpoint_error,
    read_saved_config,
    read_words,
)

SEARCH = ("path", "input", "gen_subset", "beam", "nbest", "lenpen", "results_path")
MODES = (
    Command(
        name="toolkit-generate translate",
        summary="Translate sentences, or the source side of data folders.",
        example="toolkit-generate translate data --path run --gen-subset test --beam 5",
        config=TranslateConfig,
        act="toolkit.commands.generate:generate",
        common=SEARCH,
    ),
    Command(
        name="toolkit-generate continue",
        summary="Continue texts with a language model.",
        example="toolkit-generate continue --path run --input prompts.txt --sampling",
        config=ContinueConfig,
        act="toolkit.commands.generate:generate",
        common=SEARCH,
    ),
    Command(
        name="toolkit-generate fill-mask",
        summary="Predict the masked tokens.",
        example="toolkit-generate fill-mask --path run --input masked.txt --top 3",
        config=FillMaskConfig,
        act="toolkit.commands.generate:generate",
        common=("path", "input", "top", "results_path"),
    ),
    Command(
        name="toolkit-generate order",
        summary="Predict the order of shuffled words: those in {braces}, or all words of a line. "
        "Needs a model trained with --task mpm.",
        example="toolkit-generate order --path run --input shuffled.txt",
        config=OrderConfig,
        act="toolkit.commands.generate:generate",
        common=("path", "input", "top", "results_path"),
    ),
    Command(
        name="toolkit-generate surprisal",
        summary="Measure the surprisal of each word of a text in bits, with entropy and rank. For "
        "translation models, each line has a source, a tab and a target.",
        example="toolkit-generate surprisal --path run --input sentences.txt > words.tsv",
        config=SurprisalConfig,
        act="toolkit.commands.generate:generate",
        common=("path", "input", "scoring", "frequencies", "results_path"),
    ),
    Command(
        name="toolkit-generate score",
        summary="Compare two text files: BLEU, chrF and TER. Needs no model.",
        example="toolkit-generate score system.txt reference.txt",
        config=ScoreConfig,
        act="toolkit.commands.generate:score",
    ),
)


def infer_mode(argv: Sequence[str]) -> str:
    """The mode for the task of the checkpoint that --path names; "" without --path."""
    words = read_words(argv)
    early = early_values(words, MODES[0], "path")
    if not (paths := get_value(read_config_files(early, MODES[0]) | early, "path", [])):
        return ""
    path = Path(paths if isinstance(paths, str) else paths[0])
    checkpoint = locate_checkpoint(path, *CHECKPOINT_LINKS)
    if checkpoint is None:  # translation alone reads data folders; it names other errors too
        if words.first:
            return "translate"
        raise missing_checkpoint_error(path)
    task = read_saved_config(checkpoint).run["task"]["name"]
    mode: str = TASKS[task].factory.generation_mode
    if not mode:
        raise ToolkitError(
            f"toolkit-generate needs a model that fills masks or generates text, but {checkpoint} "
            f"was trained with --task {task}. Use toolkit-predict or toolkit-validate."
        )
    return mode


COMMAND = CommandGroup(
    name="toolkit-generate",
    summary="Apply a trained model to text. Unless a mode is named, it follows from the task of "
    "the checkpoint: translation models translate, language models continue texts, masked language "
    "models fill [MASK].",
    example="toolkit-generate data --path run/checkpoint_best --gen-subset test --beam 5",
    metavar="MODE",
    commands={command.name.split()[-1]: command for command in MODES},
    infer=infer_mode,
)
main = program(COMMAND, __name__)
