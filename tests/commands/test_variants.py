import pytest

from toolkit.cli.validate import COMMAND
from toolkit.commands.variants import list_variants
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.early_exit import handle_info_flags
from toolkit.config.load import load
from toolkit.config.run import ComponentConfig
from toolkit.config.values import Overrides

GIVEN = ["data", "--path", "run"]


def read(*words):
    return load([*GIVEN, *words], COMMAND).config.task.values


def variants(task="mlm", **values):
    component = ComponentConfig(task, TASKS[task].config)
    return list(list_variants("task", component, Overrides(values)))


def test_flags_of_the_overridden_section_are_lists_of_values(tmp_path):
    assert read() == {}
    words = ["--task.tokens-per-sample", "128,256", "--task.mask-rate=0.3"]
    assert read(*words) == {"tokens_per_sample": ["128", "256"], "mask_rate": ["0.3"]}
    assert read("--tokens-per-sample", "64") == {"tokens_per_sample": ["64"]}


def test_flags_override_files(tmp_path):
    (tmp_path / "a.yaml").write_text("task: {tokens_per_sample: [8, 16], mask_rate: 0.3}\n")
    from_file = ["--config", str(tmp_path / "a.yaml")]
    assert read(*from_file) == {"tokens_per_sample": ["8", "16"], "mask_rate": ["0.3"]}
    flags = ["--task.tokens-per-sample", "32"]
    assert read(*from_file, *flags) == {"tokens_per_sample": ["32"], "mask_rate": ["0.3"]}


def test_printed_overrides_are_read_back(tmp_path):
    words = [*GIVEN, "--task.tokens-per-sample", "8,16", "--task.mask-rate", "0.3"]
    (tmp_path / "a.yaml").write_text(handle_info_flags([*words, "--print-config"], COMMAND))
    assert load(["--config", str(tmp_path / "a.yaml")], COMMAND) == load(words, COMMAND)


def test_variants_are_all_combinations_of_the_values():
    found = variants(tokens_per_sample=["128", "256"], mask_rate=["0.3", "0.4"])
    assert [it.label for it in found] == [
        f"task.tokens_per_sample={tokens} task.mask_rate={rate}"
        for tokens in (128, 256)
        for rate in (0.3, 0.4)
    ]
    for it in found:
        options, config = it.options, it.component.config
        assert options["task.tokens_per_sample"] == config.tokens_per_sample
        assert options["task.mask_rate"] == config.mask_rate and config.span_max == 3


def test_without_overrides_the_component_is_the_only_variant():
    [variant] = variants()
    assert variant.label == "" and variant.component.config == TASKS["mlm"].config


@pytest.mark.parametrize(
    ("task", "values", "message"),
    [
        ("mlm", {"tokens_per_samples": ["8"]}, r"no option .* Did you mean --task.tokens-per-sam"),
        ("mlm", {"tokens_per_sample": ["8", "x"]}, r"must be a whole number, but is 'x' \(--task"),
        ("mlm", {"tokens_per_sample": ["3"]}, "tokens_per_sample must be at least 4, but is 3"),
        ("rtd", {"generator_size": ["1"]}, "--task.generator-size cannot be changed after trainin"),
        ("mpm", {"objectives": ["mlm"]}, "--task.objectives cannot .* part of the model of --task"),
        ("glue", {"layer_mixing": ["true"]}, "--task.layer-mixing cannot be changed after train"),
    ],
)
def test_overrides_that_the_task_does_not_allow_are_errors(task, values, message):
    with pytest.raises(ToolkitError, match=message):
        variants(task, **values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task.tokens-per-sample", ""], r"must have a value, but is empty \(--task.tokens"),
        (["--task", "mpm"], "no option is called --task"),
        (["--arch.layers", "3"], "no option is called --arch.layers"),
        (["--predictions", "a", "--tokens-per-sample", "8,9"], "one value of each option"),
    ],
)
def test_other_options_of_a_run_are_errors(words, message):
    with pytest.raises(ToolkitError, match=message):
        read(*words)
