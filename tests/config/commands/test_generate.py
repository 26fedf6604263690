import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import (
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
        ({"lenpen": float("nan")}, "lenpen must be at least -50 and at most 50, but is nan"),
        ({"nbest": 6}, r"nbest must be at most beam \(5\), but is 6"),
        ({"min_len": 9, "max_len_b": 8}, r"min_len must be at most max_len_b \(8\), but is 9"),
        ({"temperature": 1e-39}, "temperature must be at least 0.0001 and at most 10000"),
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


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (FillMaskConfig, {}, r"--path is required"),
        (OrderConfig, {"path": ["a", "b"]}, r"--path must name one checkpoint"),
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
    ],
)
def test_mode_rejects_impossible_options(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)
