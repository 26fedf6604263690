"""Parse a command line: flags with their values, and positional words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from toolkit.common.errors import ToolkitError
from toolkit.config.options import Option
from toolkit.config.values import OptionValue, OptionValues, split_list

SHORT_FLAGS = {"-h": "--help"}
BOOL_WORDS = ("true", "false")


def missing_dashes_error(word: str) -> ToolkitError:
    """The error for a word that is no value of an option."""
    return ToolkitError(f"unexpected argument {word!r}: options start with --. See --help.")


def parse_flags(
    argv: Sequence[str],
    find: Callable[[str], Option],
    positional: Option | None,
    unexpected_word: Callable[[str], ToolkitError] = missing_dashes_error,
) -> OptionValues:
    """`--a.b-c 1` and `--a.b-c=1` set a.b_c; words without a flag fill the positional option.

    A bool flag needs no value. The last of repeated flags counts; but values of a list that is not
    split at commas, such as --config, are appended. `unexpected_word` makes the error for a word
    without a flag if there is no positional option.
    """
    values: OptionValues = {}
    rest: list[str] = []
    words = deque(argv)
    while words and (word := words.popleft()) != "--":
        if (word := SHORT_FLAGS.get(word, word)).startswith("--"):
            store_flag(values, word, words, find)
        elif word.startswith("-") and word != "-":
            raise missing_dashes_error(word)
        else:
            rest.append(word)
    rest += words
    if rest and positional and positional.path in values:
        raise ToolkitError(
            f"{positional.flag} cannot be combined with words without a flag, which set the same "
            f"option."
        )
    return values | positional_value(rest, positional, unexpected_word) if rest else values


def list_flags(argv: Sequence[str]) -> list[str]:
    """The names of all flags."""
    words = [*takewhile(lambda word: word != "--", argv)]
    flags = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
    return [flag.replace("-", "_") for flag in flags]


def scan_flags(argv: Sequence[str], options: Mapping[str, Option]) -> OptionValues:
    """The values of a few options, before the others are known."""
    values: OptionValues = {}
    words = deque(argv)
    while words and (word := words.popleft()) != "--":
        if (word := SHORT_FLAGS.get(word, word)).startswith("--"):
            store_flag(values, word, words, options.get)
    return values


def store_flag(
    values: OptionValues, word: str, words: deque[str], find: Callable[[str], Option | None]
) -> None:
    """Store the value of a flag, which may be the next of the words, if its option is known."""
    name, equals, value = word[2:].partition("=")
    if option := find(name.replace("-", "_")):
        texts = [value] if equals else take_values(option, f"--{name}", words)
        store(values, option, texts, f"--{name}")


def take_values(option: Option, flag: str, words: deque[str]) -> list[str]:
    """The words that belong to a flag written without `=`."""
    if option.type.scalar is bool and not option.type.is_list:
        return [words.popleft()] if words and words[0].lower() in BOOL_WORDS else ["true"]
    texts: list[str] = []
    while words and not words[0].startswith("--") and (option.multi_word or not texts):
        texts.append(words.popleft())
    if not texts:
        raise ToolkitError(f"{flag} needs a value: {option.rule}.")
    return texts


def store(values: OptionValues, option: Option, texts: list[str], flag: str) -> None:
    """Store the texts of a flag; flags that append extend the earlier list."""
    if not option.type.is_list:
        values[option.path] = OptionValue(",".join(texts), flag)
        return
    items = [item for text in texts for item in split_list(option, text)]
    before = values[option.path].value if option.path in values and option.appends else []
    values[option.path] = OptionValue([*before, *items], flag)


def positional_value(
    words: list[str], positional: Option | None, unexpected_word: Callable[[str], ToolkitError]
) -> OptionValues:
    """The value of the positional argument; `unexpected_word` makes the error if there is none."""
    if positional is None:
        raise unexpected_word(words[0])
    if not positional.type.is_list and len(words) > 1:
        raise missing_dashes_error(words[1])
    value = words if positional.type.is_list else words[0]
    return {positional.path: OptionValue(value, "argument")}
