"""The words of a command line: flags with their values, and words without a flag."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.options import Option
from toolkit.config.sources import Given, Values, parted

SHORT = {"-h": "--help"}
TRUTHS = ("true", "false")


def parse(argv: Sequence[str], find: Callable[[str], Option], positional: Option | None) -> Values:
    """`--a.b-c 1` and `--a.b-c=1` set a.b_c; words without a flag fill the positional option.

    A flag without value is true where its field is a bool. Of repeated flags the last one counts,
    but those of a list that is not parted at commas, such as --config, add up.
    """
    found: Values = {}
    rest: list[str] = []
    words = deque(argv)
    while words:
        word = words.popleft()
        word = SHORT.get(word, word)
        if word == "--":
            rest += words
            break
        if word.startswith("-") and word != "-" and not word.startswith("--"):
            raise dashless(word)
        if not word.startswith("--"):
            rest.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        option = find(name.replace("-", "_"))
        texts = [value] if equals else following(option, f"--{name}", words)
        put(found, option, texts, f"--{name}")
    if rest:
        refuse_twice(found, positional)
        found |= without_flag(rest, positional)
    return found


def refuse_twice(found: Values, positional: Option | None) -> None:
    """Words without a flag would silently win over the flag of the same option."""
    if positional and positional.path in found:
        raise ToolkitError(
            f"{positional.path} must be given once, but is given both by {positional.flag} and by "
            f"words without a flag. Leave one of them out."
        )


def scan(argv: Sequence[str], options: Mapping[str, Option]) -> Values:
    """The values of a few options, before it is known which others there are."""
    found: Values = {}
    words = deque(SHORT.get(word, word) for word in argv)
    while words and (word := words.popleft()) != "--":
        name, equals, value = word[2:].partition("=")
        option = options.get(name.replace("-", "_")) if word.startswith("--") else None
        if option is not None:
            put(found, option, [value] if equals else following(option, word, words), f"--{name}")
    return found


def following(option: Option, flag: str, words: deque[str]) -> list[str]:
    """The words that belong to a flag written without `=`."""
    if option.scalar is bool and not option.many:
        return [words.popleft()] if words and words[0].lower() in TRUTHS else ["true"]
    texts: list[str] = []
    while words and not words[0].startswith("--") and (option.greedy or not texts):
        texts.append(words.popleft())
    if not texts:
        raise ToolkitError(f"{flag} must be followed by a value, but is not. It is {option.rule}.")
    return texts


def put(found: Values, option: Option, texts: list[str], flag: str) -> None:
    if not option.many:
        found[option.path] = Given(texts[-1], flag)
        return
    items = [item for text in texts for item in parted(option, text)]
    before = found[option.path].value if option.path in found and option.adds_up else []
    found[option.path] = Given([*before, *items], flag)


def without_flag(words: list[str], positional: Option | None) -> Values:
    if positional is None:
        raise dashless(words[0])
    if not positional.many and len(words) > 1:
        raise dashless(words[1])
    return {positional.path: Given(words if positional.many else words[0], "argument")}


def dashless(word: str) -> ToolkitError:
    return ToolkitError(f"options must start with --, but {word!r} does not. See --help.")
