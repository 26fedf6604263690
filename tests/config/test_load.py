import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose, load

NAMED = ["--arch", "composite_bert_small", "--task", "mlm"]


@pytest.fixture
def run(train):
    return lambda *words: load([*NAMED, *words], train).config


@pytest.fixture
def file(tmp_path):
    def written(text, name="run.yaml"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return written


def test_files_override_the_named_size_and_flags_override_files(run, file):
    one = file("arch: {layers: 3, heads: 8}", "one.yaml")
    two = file("arch: {layers: 5}", "two.yaml")
    c = run("--config", one, "--config", two, "--arch.heads", "2").arch.config
    assert (c.width, c.layers, c.heads, c.radius) == (256, 5, 2, 8)


def test_file_can_name_the_components(train, file):
    path = file("arch: bert_tiny\ntask: {name: mlm, mask_rate: 0.2}\noptimizer: adam\n")
    run = load(["--config", path], train).config
    assert (run.arch.name, run.task.config.mask_rate) == ("bert_tiny", 0.2)
    assert (run.optimizer.name, run.optimizer.config.weight_decay) == ("adam", 0.0)


def test_compose_builds_a_run():
    run = compose(
        {"arch": "bert_tiny", "task": "mlm", "arch.dropout": 0.0, "max_update": 3, "lr": 0.1}
        | {"data.dirs": ["a"], "valid_subset": "valid,test"}
    )
    assert (run.arch.config.dropout, run.training.max_update) == (0.0, 3)
    assert (run.data.dirs, run.optimizer.config.lr) == (["a"], 0.1)


def test_compose_rejects_unknown_options():
    named = {"arch": "bert_tiny", "task": "mlm"}
    with pytest.raises(ToolkitError, match=r"no option is called drpout. Did you mean dropout\?$"):
        compose({**named, "drpout": 0.0})
    with pytest.raises(ToolkitError, match=r"arch.dropout must be a number, but is 'none'"):
        compose({**named, "arch.dropout": "none"})


def test_component_named_only_by_a_sweep_is_resolved(train, file):
    grid = ["--grid", "arch=bert_tiny,composite_bert_tiny"]
    assert load([*grid, "--task", "mlm"], train).config.arch.name == "bert_tiny"
    assert load([*grid, *NAMED], train).config.arch.name == "composite_bert_small"
    path = file("sweep: {grid: ['arch=bert_tiny;bert_small']}\ntask: mlm\n")
    assert load(["--config", path], train).config.arch.name == "bert_tiny"
    path = file("sweep: {grid: 'arch=bert_small,bert_tiny'}\ntask: mlm\n")
    assert load(["--config", path], train).config.arch.name == "bert_small"
