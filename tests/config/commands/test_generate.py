import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import (
    ContinueConfig,
    FillMaskConfig,
    OrderConfig,
    ScoreConfig,
    SearchConfig,
    TranslateConfig,
)

PATH = {"path": ["run"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, but is 0"),
        ({"min_len": -1}, "min_len must be at least 0, but is -1"),
        ({"max_len_a": float("inf")}, "max_len_a must be at most 1000, but is inf"),
        ({"lenpen": float("nan")}, "lenpen must be at least -50 and at most 50, but is nan"),
        ({"lenpen": 400.0}, "lenpen must be at least -50 and at most 50, but is 400"),
        ({"sampling": True, "temperature": float("inf")}, "temperature must be finite, but is inf"),
        (
            {"diverse_beam_groups": 5, "diverse_beam_strength": float("nan")},
            "diverse_beam_strength must be at least 0, but is nan",
        ),
        ({"nbest": 6}, r"nbest must be at most beam \(5\), but is 6"),
        (
            {"sampling": True, "temperature": 0.0},
            "temperature must be above 0, but is 0",
        ),
        ({"sampling": True, "sampling_topp": 1.5}, "sampling_topp must be above 0 and at most 1"),
        ({"diverse_beam_groups": 2}, "beam must be a multiple of diverse_beam_groups, but 5"),
    ],
)
def test_search_rejects_impossible_options(options, message):
    with pytest.raises(ToolkitError, match=message):
        SearchConfig(**options)


@pytest.mark.parametrize(
    "options",
    [{"sampling": True}, {"sampling_topk": 4}, {"sampling_topp": 0.9}, {"temperature": 2}],
)
def test_options_of_sampling_imply_it(options):
    assert SearchConfig(**options).samples and not SearchConfig().samples


def test_maximum_length_grows_with_the_source():
    assert SearchConfig(max_len_a=1.5, max_len_b=10).max_length(4) == 16


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (FillMaskConfig, {}, r"--path is required"),
        (FillMaskConfig, {**PATH, "top": 0}, r"top must be at least 1, but is 0"),
        (OrderConfig, {"path": ["a", "b"]}, r"--path must name one checkpoint"),
        (ContinueConfig, {**PATH, "weights": "x"}, r"weights must be one of auto, .*, but is 'x'"),
        (ScoreConfig, {"files": ["a"]}, "needs two files, SYSTEM and REFERENCE; 1 are given"),
        (TranslateConfig, {**PATH, "gen_subset": "valid"}, "--gen-subset requires a data folder"),
        (
            TranslateConfig,
            {**PATH, "dirs": ["bin"], "gen_subset": " , "},
            "--gen-subset must name a split, but is ' , '",
        ),
        (
            TranslateConfig,
            {**PATH, "dirs": ["bin"], "input": "text"},
            "--input cannot be combined with data folders",
        ),
        (
            TranslateConfig,
            {**PATH, "print_alignment": "some"},
            "print_alignment must be one of none, hard, soft",
        ),
    ],
)
def test_mode_rejects_impossible_options(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)
