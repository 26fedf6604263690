"""Tries nonsense as the value of every declared option of every command.

    python -m tests.helpers.option_fuzzer FOLDER [VALUES]

writes FOLDER/outcomes.jsonl, a line for each value: all of them, or this many for each option. They
are tried in forked processes, a few in each, which are ended when a value takes too long.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.helpers.command_inputs import COMMAND_LINES, MODELS, Main, make_inputs
from toolkit.cli.toolkit import COMMANDS
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command, CommandGroup
from toolkit.config.declared import Option, list_options
from toolkit.config.load import name_option

NUMBERS = ("nan", "inf", "-inf", "-1", "0", "1.5", f"{2**31}", f"{2**63}", f"{10**30}", "1" * 5000)
TEXTS = ("", " ", "x", "x" * 5000, "\udcff", "a\nb", "$", "$x_1$", "\\", "a=b", "1,2", "1..2", "{}")
PATHS = ("/dev/null", "missing/file", "folder", "text.txt", "*", "**", "[", "/" + "x/" * 3000)
VALUES = (*NUMBERS, *TEXTS, *PATHS)
SECONDS = 60.0
"""Time limit of one value."""
MEMORY = 6 << 30
"""Bytes that one value may allocate."""
PER_PROCESS = 20
LINE = 2000
"""Maximum length of a line on standard error."""


class Target(NamedTuple):
    """An option of a command, and the words to which a value of it is added."""

    command: str
    main: Main
    words: list[str]
    option: Option
    is_positional: bool = False

    def argv(self, value: str) -> list[str]:
        if self.is_positional:
            flags = [index for index, word in enumerate(self.words) if word.startswith("--")]
            return [*self.words[min(flags, default=len(self.words)) :], "--", value]
        dry = ["--sweep.slurm"] * self.option.path.startswith("sweep.")
        return [*self.words, *dry, f"{self.option.flag}={value}"]


def list_commands() -> dict[tuple[str, type], tuple[Main, Command]]:
    """Name with its mode, and config class, of every command -> its function and declaration."""
    commands = {}
    for name in COMMANDS:
        module = importlib.import_module(f"toolkit.cli.{name}")
        for found in vars(module).values():
            if isinstance(found, CommandGroup):
                for mode, command in found.commands.items():
                    commands[f"{name} {mode}", command.config] = (module.main, command)
            elif isinstance(found, Command) and found.name == f"toolkit-{name}":
                commands[name, found.config] = (module.main, found)
    return commands


def list_targets(fields: dict[str, str]) -> Iterator[Target]:
    """Every option of every command and of the components of training and preprocessing."""
    for (name, config), (main, command) in list_commands().items():
        first, *mode = name.split()
        words = COMMAND_LINES[f"{first} {config.__name__}"].format(**fields).split()
        words = [*mode, *words]
        components = command.components if first != "inspect" else {}
        options = [*command.command_line_options(), *command.fixed_options()]
        for option in [*options, *(name_option(section, command) for section in components)]:
            yield Target(name, main, words, option, option.path == command.positional)
        for section in components:
            for component, option in component_options(command, section):
                flag = f"--{section}={component}"
                yield Target(f"{name} {flag}", main, [*words, flag], option)
        if command.overridden:
            yield from list_overridden(name, main, fields)


def list_overridden(name: str, main: Main, fields: dict[str, str]) -> Iterator[Target]:
    """The options of tasks that a command takes in place of those of a checkpoint's run."""
    for model, training in MODELS.items():
        data, *_, task = training.format(**fields).split()
        words = f"{data} --path {fields[model]} --num-workers 0 --device cpu".split()
        for option in list_options("task", COMPONENTS["task"][task].config):
            yield Target(f"{name} --task={task}", main, words, option)


def component_options(command: Command, section: str) -> Iterator[tuple[str, Option]]:
    """The options of all components of a section, each once, with a small component that has it."""
    registry, seen = command.components[section], set()
    for name in sorted(registry.names(), key=lambda name: not name.endswith("_tiny")):
        config: Any = registry[name].config
        cls = config if isinstance(config, type) else type(config)
        for option in list_options(section, config):
            declaring = [
                c for c in cls.__mro__ if option.name in vars(c).get("__annotations__", ())
            ]
            if (declaring[0], option.name) not in seen:
                seen.add((declaring[0], option.name))
                yield name, option


def fuzz(cases: Sequence[tuple[Target, str]]) -> Iterator[dict[str, object]]:
    """The outcome of each option with a value; a process that ends or hangs is replaced."""
    rest = list(cases)
    while rest:
        receiver, sender = Pipe(duplex=False)
        child = os.fork()
        if not child:
            try:
                try_values(rest[:PER_PROCESS], sender)
            finally:
                os._exit(0)
        sender.close()
        for target, value in rest[:PER_PROCESS]:
            start = time.monotonic()
            code, stderr = receive(receiver)
            yield {
                **{"command": target.command, "option": target.option.path},
                **{"value": value[:40], "code": code, "stderr": stderr[-LINE:]},
                **{"seconds": time.monotonic() - start, "fault": find_fault(code, stderr)},
            }
            rest.pop(0)
            if code in ("no end", "ended"):
                break
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def receive(receiver: Connection) -> tuple[object, str]:
    """The exit code and standard error of a value, from the process that tries it."""
    if not receiver.poll(SECONDS):
        return "no end", ""
    try:
        code, stderr = receiver.recv()
        return code, stderr
    except EOFError:
        return "ended", ""


def find_fault(code: object, stderr: str) -> str:
    """What a user should not see; empty if there is nothing."""
    if code not in (0, 2) or "Traceback" in stderr:
        return f"exit code {code}"
    lines = stderr.splitlines()
    if code == 2 and len([line for line in lines if line.startswith("toolkit")]) != 1:
        return "not one line"
    return "long line" if any(len(line) > LINE for line in lines) else ""


def try_values(cases: Sequence[tuple[Target, str]], reports: Connection) -> None:
    """Run the commands with their values, in this process, and report exit codes and errors."""
    os.setsid()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    with tempfile.TemporaryDirectory() as folder:
        redirect_streams(Path(folder))
        for number, (target, value) in enumerate(cases):
            os.truncate(f"{folder}/2", 0)
            place = Path(folder, "work", str(number))
            Path(place, "folder").mkdir(parents=True)
            Path(place, "text.txt").write_text("the cat sat\n")
            os.chdir(place)
            code = call_main(target, value)
            reports.send((code, Path(folder, "2").read_text("utf-8", "replace")))
        os.chdir("/")


def redirect_streams(folder: Path) -> None:
    """Standard input is empty; output and error are the files 1 and 2, as a terminal encodes."""
    errors = ("strict", "strict", "backslashreplace")
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        path = folder / str(descriptor)
        path.touch()
        file = os.open(path, os.O_RDWR | os.O_APPEND if descriptor else os.O_RDONLY)
        os.dup2(file, descriptor)
        stream = open(  # noqa: SIM115
            descriptor,
            "w" if descriptor else "r",
            buffering=1,
            encoding="utf-8",
            errors=errors[descriptor],
            closefd=False,
        )
        setattr(sys, name, stream)


def call_main(target: Target, value: str) -> object:
    """The exit code of the command; a traceback goes to standard error, as at a terminal."""
    try:
        code: object = target.main(target.argv(value))
    except SystemExit as error:
        code = error.code
    except BaseException:
        code = "exception"
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main() -> None:
    """Try the values of the command line's number, drawn with a fixed seed."""
    folder, draws = Path(sys.argv[1]), random.Random(1)
    count = int(sys.argv[2]) if sys.argv[2:] else len(VALUES)
    importlib.import_module("matplotlib.figure")  # once, before processes are forked
    torch.set_num_threads(1)  # a forked process does not have the other threads
    fields = make_inputs(
        folder, {name.split()[0]: main for (name, _), (main, _) in list_commands().items()}
    )
    with open(folder / "outcomes.jsonl", "w", encoding="utf-8") as file:
        targets = list(list_targets(fields))
        for outcome in fuzz(
            [(it, value) for it in targets for value in draws.sample(VALUES, count)]
        ):
            print(json.dumps(outcome), file=file, flush=True)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null was replaced by a file"


if __name__ == "__main__":
    main()
