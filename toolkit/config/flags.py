"""Parse a command line: flags with their values, and positional words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.options import Option
from toolkit.config.values import OptionValue, OptionValues, split_list

SHORT_FLAGS = {"-h": "--help"}
BOOL_WORDS = ("true", "false")


def parse_flags(
    argv: Sequence[str], find: Callable[[str], Option], positional: Option | None
) -> OptionValues:
    """`--a.b-c 1` and `--a.b-c=1` set a.b_c; words without a flag fill the positional option.

    A flag of a bool needs no value. Of repeated flags the last one counts, but those of a list that
    is not split at commas, such as --config, are appended.
    """
    found: OptionValues = {}
    rest: list[str] = []
    words = deque(argv)
    while words:
        word = words.popleft()
        word = SHORT_FLAGS.get(word, word)
        if word == "--":
            rest += words
            break
        if word.startswith("-") and word != "-" and not word.startswith("--"):
            raise missing_dashes_error(word)
        if not word.startswith("--"):
            rest.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        option = find(name.replace("-", "_"))
        texts = [value] if equals else take_values(option, f"--{name}", words)
        store(found, option, texts, f"--{name}")
    if rest:
        check_given_once(found, positional)
        found |= positional_values(rest, positional)
    return found


def check_given_once(found: OptionValues, positional: Option | None) -> None:
    """Raise if both a flag and words without a flag set an option."""
    if positional and positional.path in found:
        raise ToolkitError(
            f"{positional.flag} cannot be combined with words without a flag, which set the same "
            f"option."
        )


def scan_flags(argv: Sequence[str], options: Mapping[str, Option]) -> OptionValues:
    """The values of a few options, before the others are known."""
    found: OptionValues = {}
    words = deque(SHORT_FLAGS.get(word, word) for word in argv)
    while words and (word := words.popleft()) != "--":
        name, equals, value = word[2:].partition("=")
        option = options.get(name.replace("-", "_")) if word.startswith("--") else None
        if option is not None:
            store(
                found, option, [value] if equals else take_values(option, word, words), f"--{name}"
            )
    return found


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


def store(found: OptionValues, option: Option, texts: list[str], flag: str) -> None:
    if not option.type.is_list:
        found[option.path] = OptionValue(texts[-1], flag)
        return
    items = [item for text in texts for item in split_list(option, text)]
    before = found[option.path].value if option.path in found and option.appends else []
    found[option.path] = OptionValue([*before, *items], flag)


def positional_values(words: list[str], positional: Option | None) -> OptionValues:
    if positional is None:
        raise missing_dashes_error(words[0])
    if not positional.type.is_list and len(words) > 1:
        raise missing_dashes_error(words[1])
    return {
        positional.path: OptionValue(words if positional.type.is_list else words[0], "argument")
    }


def missing_dashes_error(word: str) -> ToolkitError:
    return ToolkitError(f"unexpected argument {word!r}: options start with --. See --help.")
