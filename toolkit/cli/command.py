"""Run a command: choose its subcommand, answer info flags, report user errors, name the next."""

from __future__ import annotations

import io
import logging
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from toolkit.common import system
from toolkit.common.errors import CONTROLS, STANDARD_OUTPUT, describe_error
from toolkit.common.files import STDOUT
from toolkit.common.registry import TASKS
from toolkit.config.command import Act, Command, CommandGroup
from toolkit.config.commands.checkpoints import AverageConfig, ConversionOptions, ImportConfig
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.help import handle_info_flags
from toolkit.config.load import LoadedConfig, load
from toolkit.config.sections import RunConfig

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130
KEPT = 150
"""Letters of a very long word that an error message keeps, at each end."""


def program(command: Command | CommandGroup, module: str) -> Callable[..., int]:
    """The function `main` of a command's module, called at once by `python -m MODULE`."""
    main = partial(execute, command)
    if module == "__main__":
        sys.exit(main())
    return main


def execute(command: Command | CommandGroup, argv: Sequence[str] | None = None) -> int:
    """The exit code: that of the command, 2 for a mistake of the user or a disk, 130 for Ctrl-C.

    Any other exception is a bug of ours, or of a plugin, and keeps its traceback.
    """
    system.stop_with_parent()
    open_streams()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("toolkit").setLevel(logging.INFO)
    for kind in ("MPS", "XPU"):  # torch then runs on the CPU, with a warning, what these GPUs lack
        os.environ.setdefault(f"PYTORCH_ENABLE_{kind}_FALLBACK", "1")
    words = list(sys.argv[1:] if argv is None else argv)
    return report_errors(command.name, lambda: run(command, words), "--traceback" in words)


def report_errors(name: str, act: Callable[[], int], with_traceback: bool = False) -> int:
    """The exit code of `act`; its errors become one line on stderr."""
    try:
        code = act()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and error.filename == STANDARD_OUTPUT:
            return 0  # the reader, such as head, has closed its end
        if not (line := describe_error(error)):
            raise
        trace = "".join(traceback.format_exception(error)).splitlines() if with_traceback else []
        return fail(name, line, [*getattr(error, "details", ()), *trace])


def fail(name: str, message: str, details: Sequence[str] = ()) -> int:
    """Print an error as one line, its details below it, very long words shortened; exit code."""
    words = (
        word if len(word) <= 2 * KEPT else f"{word[:KEPT]}...{word[-KEPT:]}"
        for word in message.split()
    )
    line = f"{name}: {' '.join(words)}".translate(CONTROLS)
    if os.environ.get("LOCAL_RANK") != "0":  # the first rank may report the same error
        system.wait_to_be_ended()
    below = [detail.translate(CONTROLS) for detail in details]
    print(line, *below, sep="\n", file=sys.stderr, flush=True)
    system.record_error(line)
    return EXIT_USER_ERROR


def run(command: Command | CommandGroup, argv: Sequence[str]) -> int:
    """Carry out a command, or answer an info flag."""
    " ".join(argv).encode()  # paths are stored in files that are UTF-8
    prepared = prepare(command, argv)
    if isinstance(prepared, str):
        print(prepared)
        return 0
    act, loaded = prepared
    OutputStream.is_product = not writes_files(loaded.config)
    if isinstance(act, str):
        act = resolve_name(act)
    code = act(loaded if loaded.extra else loaded.config)
    if isinstance(code, int) and code:
        return code
    is_read = getattr(loaded.config, "json", None) or system.PARENT in os.environ
    if not is_read and os.environ.get("RANK", "0") == "0" and (next_one := next_command(loaded)):
        sys.stdout.flush()  # what the command has printed comes first
        print(f"next: {next_one}", file=sys.stderr)
    return 0


def prepare(command: Command | CommandGroup, argv: Sequence[str]) -> tuple[Act, LoadedConfig] | str:
    """The function to call with which configs, or the text that an info flag asks for."""
    if isinstance(command, CommandGroup):
        chosen, argv = command.choose(argv)
        return prepare(chosen, argv) if chosen else command.answer(argv)
    command = command.variant(argv) if command.variant else command
    text = handle_info_flags(argv, command)
    return (command.act, load(argv, command)) if text is None else text


def writes_files(config: Any) -> bool:
    """Whether a command writes its results to files, besides the text that it prints."""
    files = [getattr(config, name, None) for name in ("results_path", "predictions", "json")]
    return (
        isinstance(config, RunConfig | ConversionOptions | PreprocessConfig)
        or getattr(config, "output", "-") not in STDOUT
        or any(file and file not in STDOUT for file in files)
    )


class OutputStream(io.FileIO):
    """Standard output or standard error, whose further text is dropped after a failure to write.

    An error of standard output names it. One of standard error is none, nor is a standard output
    without a reader if the results are files: a run of days does not end because nobody watches it.
    """

    is_product = True
    """Whether the text on standard output is all that the command makes."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            gone = isinstance(error, BrokenPipeError) and not self.is_product
            if self.name == 2 or gone:  # standard error
                return len(data)
            raise type(error)(error.errno, error.strerror, STANDARD_OUTPUT) from None


def open_streams() -> None:
    """Make standard output and standard error an `OutputStream`, and replace closed streams, whose
    numbers the next files that are opened would get.

    Output must not be lost in silence, so what replaces standard output is opened for reading:
    writing to it fails. Text that cannot be encoded, such as a file name that is not UTF-8, is
    printed escaped.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    for name, flags in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):  # that of a notebook or a test
            continue
        descriptor = stream.fileno() if stream else os.open(os.devnull, flags)
        buffer = io.BufferedWriter(OutputStream(descriptor, "w", closefd=False))
        lines = stream is None or stream.line_buffering or stream.write_through
        encoding = stream.encoding if stream else None
        text = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=lines)
        setattr(sys, name, text)


TRAINING = {
    "text": "composite_bert_small --task mlm --max-update 10000",
    "parallel": "transformer_iwslt --task translation --max-epoch 20",
    **dict.fromkeys(("conllu", "ptb", "columns"), "bert_small --task pos_tagging --max-epoch 10"),
    **dict.fromkeys(("glue", "tsv"), "bert_small --task glue --max-epoch 3"),
    "squad": "bert_small --task squad --max-epoch 3",
    **dict.fromkeys(("race", "swag"), "bert_small --task multiple_choice --max-epoch 3"),
}
"""Format of the data -> architecture, task and length of a first run."""


def next_command(loaded: LoadedConfig) -> str:
    """The command with the folders of this one; empty after a command that is often the last."""
    match loaded.config:
        case PreprocessConfig(destdir=data, format=format):
            kind = format.config.like if format.name == "rows" else format.name
            unvalidated = "" if any(Path(data).glob("valid.*")) else " --valid-subset ''"
            if kind in TRAINING:
                return f"toolkit-train {shlex.quote(data)} --arch {TRAINING[kind]}{unvalidated}"
        case RunConfig() as run if "sweep" in loaded.extra:
            sweep, folder = loaded.extra["sweep"], shlex.quote(run.checkpoint.save_dir)
            if run.checkpoint.no_save or sweep.slurm or sweep.suite:
                return ""
            if sweep.seeds or sweep.grid:
                return f"toolkit-plot curve {folder}"
            factory = TASKS[run.task.name].factory
            if factory.generation_mode:
                return f"toolkit-generate {factory.generation_mode} --path {folder}"
            if hasattr(factory, "predictor_class"):
                return f"toolkit-predict --path {folder} --input FILE"
            return f"toolkit-validate {shlex.join(run.data.dirs)} --path {folder}"
        case AverageConfig(output=folder):
            return f"toolkit-validate DATA --path {shlex.quote(folder)}"
        case ImportConfig(paths=[_, folder]):
            return (
                f"toolkit-preprocess --trainpref FILE --tokenizer-from {shlex.quote(folder)} "
                f"--destdir data"
            )
    return ""
