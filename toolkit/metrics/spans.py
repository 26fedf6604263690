"""Precision, recall and F1 of spans of words, as the CoNLL script conlleval computes them.

A word's tag is O, or a prefix and the type of its span, as in B-NP and I-NP. One rule reads all
schemes: IOB1, IOB2 (BIO), IOE, BIOES and BILOU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.metrics.classification import ClassMetrics, compute_class_metrics

OUTSIDE = "O"
FIRST, LAST, INSIDE = "BSU", "ESLU", "IM"
"""Prefixes: first word of a span, last word of a span, any other. S and U are both."""


class SpanTags(NamedTuple):
    """What each of some tags says about the span of its word."""

    types: list[str]
    """Types of spans, in alphabetical order."""
    type_ids: IntArray
    """Index of each tag's type; -1 for O."""
    is_first: BoolArray
    """Whether a span starts at a word with the tag."""
    is_last: BoolArray
    """Whether a span ends at a word with the tag."""

    @classmethod
    def parse(cls, tags: Sequence[str]) -> SpanTags:
        """Raises a ToolkitError for a tag of another kind, such as a part of speech."""
        for tag in tags:
            if not is_span_tag(tag):
                raise ToolkitError(
                    f"spans require tags such as O, B-NP and I-NP, but there is {tag!r}. Select "
                    f"their column with toolkit-preprocess --tag-column, or use --task pos_tagging."
                )
        parts = [tag.partition("-") for tag in tags]
        types = sorted({name for prefix, _, name in parts if prefix != OUTSIDE})
        ids = {name: index for index, name in enumerate(types)}
        return cls(
            types,
            np.array([-1 if tag == OUTSIDE else ids[tag.partition("-")[2]] for tag in tags]),
            np.array([prefix in FIRST for prefix, _, _ in parts], bool),
            np.array([prefix in LAST for prefix, _, _ in parts], bool),
        )


def is_span_tag(tag: str) -> bool:
    """Whether a tag has the form of a span tag, such as B-PER or O."""
    return tag == OUTSIDE or tag.partition("-")[0] in (*FIRST, *LAST, *INSIDE)


def has_span_tags(tags: Sequence[str]) -> bool:
    """Whether these are O and tags of spans."""
    return OUTSIDE in tags and len(tags) > 1 and all(map(is_span_tag, tags))


class Spans(NamedTuple):
    """Spans in the order of their words."""

    starts: IntArray
    """First word of each."""
    ends: IntArray
    """Word after the last."""
    type_ids: IntArray


def find_spans(labels: IntArray, sentence_starts: BoolArray, tags: SpanTags) -> Spans:
    """The spans of words with these labels, which are indices of tags.

    Two adjacent words inside spans belong to the same one unless the types differ, a prefix says
    that a span ends or starts between them, or a sentence does. So I-NP after O starts a span.
    """
    types = tags.type_ids[labels]
    before = np.roll(labels, 1)
    starts_here = sentence_starts | tags.is_first[labels] | tags.is_last[before]
    starts = np.flatnonzero(starts_here | (types != tags.type_ids[before]))
    ends = np.append(starts, len(labels))[1:]
    inside = types[starts] >= 0
    return Spans(starts[inside], ends[inside], types[starts[inside]])


def mark_sentence_starts(lengths: IntArray) -> BoolArray:
    """Whether each word is the first of a sentence; the sentences have `lengths` words."""
    starts = np.zeros(int(lengths.sum()), bool)
    starts[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    return starts


def compute_span_metrics(true: Spans, predicted: Spans, types: Sequence[str]) -> list[ClassMetrics]:
    """Metrics of all spans, and then of each type that occurs; a correct span is equal in full."""
    _, index, other = np.intersect1d(
        true.starts, predicted.starts, assume_unique=True, return_indices=True
    )
    same_end = true.ends[index] == predicted.ends[other]
    same_type = true.type_ids[index] == predicted.type_ids[other]
    correct, support, found = (
        np.bincount(ids, minlength=len(types))
        for ids in (true.type_ids[index[same_end & same_type]], true.type_ids, predicted.type_ids)
    )
    return [
        compute_class_metrics("all", int(correct.sum()), int(support.sum()), int(found.sum())),
        *(
            compute_class_metrics(name, int(correct[t]), int(support[t]), int(found[t]))
            for t, name in enumerate(types)
            if support[t] or found[t]
        ),
    ]
