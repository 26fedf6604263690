import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"format": "conll"}, "format must be one of text, conllu, ptb, .* but is 'conll'"),
        ({"vocabulary_from": "dev"}, "vocabulary_from must be train or all, but is 'dev'"),
        ({"unseen_tags": "skip"}, "unseen_tags must be error or wrong, but is 'skip'"),
        ({"type_fraction": 0.0}, "type_fraction must lie between 0 and 1, but is 0.0"),
        ({"max_word_vectors": -1}, "max_word_vectors must not be negative, but is -1"),
        (
            {"train_sections": "0-18"},
            "train_sections must be given with --format ptb, but .* conllu",
        ),
        (
            {"segment_by": "sentences"},
            "segment_by must be given with --format text, but the format is conllu",
        ),
        ({"format": "text", "tag": "xpos"}, "tag must be given with --format conllu, but .* text"),
        (
            {"format": "text", "type_fraction": 0.5},
            "type_fraction must be given with --format conllu or ptb or columns, but .* is text",
        ),
        (
            {"min_count": 2, "wordpiece_vocab": "v"},
            "min_count must come with a dictionary of words",
        ),
        (
            {"lowercase": True},
            "lowercase must come with pieces for tagged text, but words of",
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        PreprocessConfig(**{"trainpref": "a.conllu", "format": "conllu", **values})


def test_pieces_of_tagged_text_may_be_in_lower_case():
    assert PreprocessConfig(
        trainpref="a", format="conllu", wordpiece_vocab="v", lowercase=True
    ).lowercase
