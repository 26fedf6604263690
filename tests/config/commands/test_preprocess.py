import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig

LANGUAGES = {"source_lang": "de", "target_lang": "en"}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"trainpref": ""}, "one of --trainpref, --validpref and --testpref must name text"),
        ({"testpref": ",,"}, r"testpref must name text between its commas, but is ',,'\. Name"),
        (
            {"segment_by": "words"},
            "segment_by must be one of lines, paragraphs, sentences, but is 'words'",
        ),
        ({"valid_fraction": 1.0}, "valid_fraction must lie in 0 .. 1, 1 excluded, but is 1.0"),
        (
            {"valid_fraction": 0.5, "test_fraction": 0.5},
            "must leave text to train on, but are 0.5 and",
        ),
        (
            {"valid_fraction": 0.1, "validpref": "b"},
            "valid_fraction and validpref must not be given tog",
        ),
        ({"vocab_size": 3}, "vocab_size must be at least 4, but is 3"),
        ({"sentencepiece_type": "word"}, "must be one of unigram, bpe, but is 'word"),
        ({"character_coverage": 0.5}, "character_coverage must lie in 0.9 .. 1, but is 0.5"),
        ({"sentencepiece_megabytes": -1.0}, "sentencepiece_megabytes must not be negative"),
        ({"min_count": 5, "format": "glue", "glue_task": "CoLA"}, "min_count must come with a dic"),
        ({"min_count": 5, "format": "squad"}, "min_count must come with a dictionary of words"),
        ({"min_count": 5, **LANGUAGES}, "min_count must come with a dictionary of words"),
        (
            {"min_count": 5, "srcdict": "d", "tgtdict": "d", **LANGUAGES},
            "min_count must come with a dictionary of words",
        ),
        ({"workers": -1}, "workers must not be negative, but is -1"),
        ({"max_line_bytes": 0}, "max_line_bytes must be at least 1, but is 0"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(values, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        PreprocessConfig(**{"trainpref": "a.txt", **values})
