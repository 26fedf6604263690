import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.metrics.classification import (
    SpanTags,
    compute_span_metrics,
    find_spans,
    mark_sentence_starts,
)


def spans(sentences, tags=None):
    """(first word, word after the last, type) of each span."""
    tags = tags or sorted({tag for sentence in sentences for tag in sentence})
    labels = np.array([tags.index(tag) for sentence in sentences for tag in sentence], np.int64)
    starts = mark_sentence_starts(np.array([len(sentence) for sentence in sentences]))
    parsed = SpanTags.parse(tags)
    return find_spans(labels, starts, parsed), parsed.types


def read(text):
    found, types = spans([sentence.split() for sentence in text.split("|")])
    return [(start, end, types[t]) for start, end, t in zip(*found, strict=True)]


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("IOB1", "I-X I-X B-X O I-Y I-X | I-X"),
        ("IOB2", "B-X I-X B-X O B-Y B-X | B-X"),
        ("IOE", "I-X E-X E-X O E-Y E-X | E-X"),
        ("BIOES", "B-X E-X S-X O S-Y S-X | S-X"),
        ("BILOU", "B-X L-X U-X O U-Y U-X | U-X"),
    ],
)
def test_all_schemes_have_the_same_spans(scheme, text):
    expected = [(0, 2, "X"), (2, 3, "X"), (4, 5, "Y"), (5, 6, "X"), (6, 7, "X")]
    assert read(text) == expected, scheme


def test_tags_without_type_make_spans():
    assert read("B I O I") == [(0, 2, ""), (3, 4, "")]


@pytest.mark.parametrize("text", ["O I-X I-X O", "O O I-X | I-X", "B-Y I-X I-X O", "I-Y B-X O"])
def test_inside_tag_starts_a_span_if_none_of_its_type_precedes(text):
    (first, last, name), *_ = [span for span in read(text) if span[2] == "X"]
    assert text.replace("| ", "").split()[first].endswith("X") and last > first and name == "X"


@pytest.mark.parametrize("tag", ["NN", "", "X-NP", "NP-B", "O-NP", "b-NP"])
def test_other_tags_are_rejected(tag):
    with pytest.raises(ToolkitError, match=rf"spans require tags such as O, B-NP .* '{tag}'"):
        SpanTags.parse(["O", "B-NP", tag])


def test_no_words_have_no_spans():
    assert [len(array) for array in spans([[]], ["O"])[0]] == [0, 0, 0]


def random_sentences(draw, tags):
    return [list(draw.choice(tags, draw.integers(1, 9))) for _ in range(300)]


def guess(draw, tags, sentences):
    """Most tags are those of the sentences."""
    return [
        [str(draw.choice(tags)) if draw.random() < 0.2 else tag for tag in sentence]
        for sentence in sentences
    ]


IOB = ["O", "B-X", "I-X", "B-Y", "I-Y"]
IOE = ["O", "E-X", "I-X", "E-Y", "I-Y"]
BIOES = ["O", *(f"{prefix}-{name}" for prefix in "BIES" for name in "XYZ")]


def measure(true, predicted, tags):
    (true_spans, types), (predicted_spans, _) = spans(true, tags), spans(predicted, tags)
    return compute_span_metrics(true_spans, predicted_spans, types)


@pytest.mark.parametrize("tags", [IOB, IOE, BIOES])
def test_metrics_of_random_tags_equal_seqeval(tags):
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    draw = np.random.default_rng(1)
    true = random_sentences(draw, tags)
    predicted = guess(draw, tags, true)
    overall, *by_type = measure(true, predicted, tags)
    options = {"y_true": true, "y_pred": predicted, "zero_division": 0}
    for average, rows in (("micro", [overall]), (None, by_type)):
        want = seqeval.precision_recall_fscore_support(average=average, **options)
        got = np.array([row[1:] for row in rows]).T
        np.testing.assert_allclose(got, np.array(want, float).reshape(4, -1))


def test_types_without_spans_are_left_out_and_no_spans_score_zero():
    rows = measure([["B-X", "O"]], [["O", "O"]], IOB)
    assert [tuple(row) for row in rows] == [("all", 0.0, 0.0, 0.0, 1), ("X", 0.0, 0.0, 0.0, 1)]
