"""CoNLL-U read sentence by sentence from a stream, and written back with other tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.conllu import ConlluOptions, parse_sentence
from toolkit.data.formats.tagging.sentence import TaggedSentence
from toolkit.data.formats.tagging.tag_fields import TAG_COLUMNS
from toolkit.data.formats.tagging.write_predictions import render_field
from toolkit.data.strict_text import decode_strict


class StreamedSentence(NamedTuple):
    """A sentence of a stream, or the reason why it is malformed."""

    line: int
    """Its first line, counted from 1."""
    sentence: TaggedSentence
    problem: str = ""


def conllu_options(column: str) -> ConlluOptions:
    """Options for the tags of a model; those of other formats than CoNLL-U become UPOS."""
    return ConlluOptions("upos" if column in ("columns", "ptb") else column, untagged=True)


def stream_conllu(
    lines: Iterable[bytes], path: Path, options: ConlluOptions
) -> Iterator[StreamedSentence]:
    """Each sentence with the blank line after it, and with any before it."""
    block, first, filled = list[bytes](), 0, False
    for number, line in enumerate(lines):
        block.append(line)
        filled |= bool(line.strip())
        if filled and not line.strip():
            yield read_block(block, path, first, options)
            block, first, filled = [], number + 1, False
    if filled:
        last = first + len(block)
        problem = "a blank line must follow the last sentence, but the input ends here. Add one."
        source = TaggedSentence.empty(b"".join(block))
        yield StreamedSentence(first + 1, source, f"{path}:{last}: {problem}")
    elif block:
        yield StreamedSentence(first + 1, TaggedSentence.empty(b"".join(block)))


def read_block(
    block: Sequence[bytes], path: Path, first: int, options: ConlluOptions
) -> StreamedSentence:
    """The sentence in these lines, which follow the `first` lines of the file."""
    data = b"".join(block)
    try:
        text = decode_strict(path, data, first)
        byte_lines, lines = data.split(b"\n")[:-1], text.split("\n")[:-1]
        return StreamedSentence(first + 1, parse_sentence(path, lines, byte_lines, first, options))
    except ToolkitError as error:
        return StreamedSentence(first + 1, TaggedSentence.empty(data), str(error))


def replace_sentence_tags(
    sentence: TaggedSentence, tags: Sequence[str], options: ConlluOptions
) -> str:
    """The sentence's text with other tags in their column; all else is unchanged."""
    feature = "" if options.tag in TAG_COLUMNS else options.tag
    parts, reached = list[bytes](), 0
    for (start, end), tag in zip(sentence.tag_spans, tags, strict=True):
        field = sentence.source[start:end].decode()
        new = render_field(field, tag, feature=feature, alternatives=False)
        parts += [sentence.source[reached:start], new.encode()]
        reached = end
    return b"".join([*parts, sentence.source[reached:]]).decode("utf-8", "replace")
