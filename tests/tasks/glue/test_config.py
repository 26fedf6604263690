from __future__ import annotations

from dataclasses import replace

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.tasks.capabilities import resolve_length
from toolkit.tasks.glue.config import GlueConfig


@pytest.mark.parametrize(("arch", "default"), [("taco_tiny", 128), ("composite_bert_tiny", 128)])
def test_tokens_per_sample_defaults_to_128(arch, default):
    assert (
        resolve_length(GlueConfig(), ARCHITECTURES[arch].config, 128).tokens_per_sample == default
    )


def test_tokens_per_sample_has_no_limit_without_a_position_table():
    c, arch = GlueConfig(tokens_per_sample=9999), ARCHITECTURES["composite_bert"].config
    assert resolve_length(c, arch) == c
    with pytest.raises(ToolkitError, match=r"the architecture's maximum length, 128, but is 9999"):
        resolve_length(c, replace(arch, absolute_positions=True))


@pytest.mark.parametrize(
    ("task", "default"),
    [("glue", 128), ("squad", 384), ("multiple_choice", 512), ("pos_tagging", 512)],
)
def test_tokens_per_sample_has_the_default_of_the_task_without_a_position_table(task, default):
    config, arch = TASKS[task].config, ARCHITECTURES["composite_bert_small"].config
    assert TASKS[task].factory.resolve_for(config, arch).tokens_per_sample == default


def test_tokens_per_sample_may_reach_the_maximum_of_the_architecture():
    c = GlueConfig(tokens_per_sample=512)
    assert resolve_length(c, ARCHITECTURES["taco"].config) == c
    with pytest.raises(ToolkitError, match=r"the architecture's maximum length, 128, but is 512"):
        resolve_length(c, ARCHITECTURES["bert"].config)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"head": "x"}, r"task.head must be one of pooled, plain, gelu, but is 'x'"),
        ({"head_dropout": 1.0}, r"task.head_dropout must be at least 0 and below 1, but"),
        ({"tokens_per_sample": 4}, r"task.tokens_per_sample must be 0 or at least 5, but is 4"),
    ],
)
def test_glue_config_rejects_options_out_of_range(wrong, message):
    with pytest.raises(ToolkitError, match=message):
        GlueConfig(**wrong)
