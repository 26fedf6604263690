import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import GenerateConfig, SearchConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, but is 0"),
        ({"min_len": -1}, "min_len must not be negative, but is -1"),
        ({"max_len_a": float("inf")}, "max_len_a must be a finite number, but is inf"),
        ({"lenpen": float("nan")}, "lenpen must lie between -50 and 50, but is nan"),
        ({"lenpen": 400.0}, "lenpen must lie between -50 and 50, but is 400"),
        ({"sampling": True, "temperature": float("inf")}, "temperature must be a finite number"),
        (
            {"diverse_beam_groups": 5, "diverse_beam_strength": float("nan")},
            "diverse_beam_strength must be a finite number, but is nan",
        ),
        ({"nbest": 6}, "nbest must be at most beam, but is 6 with beam 5"),
        ({"sampling": True, "temperature": 0.0}, "temperature must be above 0, but is 0.0"),
        ({"sampling": True, "sampling_topp": 1.5}, "sampling_topp must lie between 0 and 1"),
        ({"sampling_topk": 4}, "sampling must be on where sampling_topk"),
        ({"diverse_beam_groups": 2}, "beam must be a multiple of diverse_beam_groups, but 5"),
        ({"diverse_beam_strength": 1.0}, "diverse_beam_groups must be 2 or more where"),
        (
            {"diverse_beam_groups": 5, "sampling": True},
            "diverse_beam_groups must be 1 with sampling, but is 5",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused(options, message):
    with pytest.raises(ToolkitError, match=message):
        SearchConfig(**options)


def test_the_most_symbols_grow_with_the_source():
    assert SearchConfig(max_len_a=1.5, max_len_b=10).max_length(4) == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": ["a"]}, "--score must name two files, .* but names 1"),
        ({"prefix_size": 3}, "--prefix-size must be with a folder of toolkit-preprocess"),
        ({"gen_subset": "valid"}, "--gen-subset must be with a folder of toolkit-preprocess"),
        ({"gen_subset": " , "}, "--gen-subset must name a split, but is ' , '"),
        ({"score_reference": True, "nbest": 2}, "--nbest must be without --score-reference"),
        ({"prefixes": True, "score_reference": True}, "must be without prefixes"),
        ({"dirs": ["bin"], "input": "text"}, "--input and --prefixes must be left out"),
        ({"print_alignment": "some"}, "print_alignment must be one of none, hard, soft"),
    ],
)
def test_options_of_the_command_that_exclude_each_other_are_refused(options, message):
    with pytest.raises(ToolkitError, match=message):
        GenerateConfig(path=["run"], **options)
