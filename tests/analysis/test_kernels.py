import json

import pytest

from toolkit.analysis.kernels import plot_kernels
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import KernelsConfig
from toolkit.training.run import run


@pytest.fixture
def drawn(trained, tmp_path, capsys):
    """The JSON lines that drawing a small run's kernels gives, and the text on stderr."""

    def draw(*more, text="the cat sat on a mat\n", **options):
        (tmp_path / "text").write_text(text)
        sentences = str(tmp_path / "text") if text else None
        where = {
            "path": [str(trained), *more],
            "output": str(tmp_path / "k.png"),
            "json": "-",
            "sentences": sentences,
        }
        plot_kernels(KernelsConfig(**{**where, **options}))
        captured = capsys.readouterr()
        return [json.loads(line) for line in captured.out.splitlines()], captured.err

    return draw


def test_plot_kernels_draws_prints_and_writes_every_kernel(drawn, tmp_path):
    records, captured = drawn()
    assert [(r["event"], r["layer"], r["kernel"], r["by"]) for r in records] == [
        ("kernel", 1, "fixed", "head"),
        ("kernel", 1, "query", "head"),
    ]
    assert len(records[1]["mean"]) == 2 and len(records[1]["deviation"][0]) == 17
    assert "layer  kernel  head" in captured and (tmp_path / "k.png").exists()


def test_plot_kernels_draws_selected_heads_and_offsets(drawn):
    records, _ = drawn(heads=[2], radius=3)
    assert records[0]["heads"] == [2] and records[0]["offsets"] == [-3, -2, -1, 0, 1, 2, 3]


def test_plot_kernels_names_each_of_several_checkpoints(drawn, trained):
    records, captured = drawn(str(trained / "checkpoint_last"))
    assert len({r["checkpoint"] for r in records}) == 2 and "checkpoint_last\n" in captured


def test_plot_kernels_without_text_reports_omitted_kernels(drawn):
    records, captured = drawn(text="")
    assert [r["kernel"] for r in records] == ["fixed"]
    assert "query kernels depend on the text. Pass --sentences FILE to draw" in captured


def test_plot_kernels_rejects_dynamic_kernels_without_text(config, drawn, tmp_path):
    run(config(max_update=1, arch__fixed=False, save_dir=str(tmp_path / "dynamic")))
    with pytest.raises(ToolkitError, match=r"the query kernels of .* depend on the text. Pass"):
        drawn(path=[str(tmp_path / "dynamic")], text="")


def test_plot_kernels_rejects_a_model_without_kernels(config, drawn, tmp_path):
    shape = {"arch": "bert_tiny", "max_update": 1, "save_dir": str(tmp_path / "bert")}
    run(config(**shape))
    with pytest.raises(ToolkitError, match=r"requires a model with kernels, .* has none. Draw"):
        drawn(path=[str(tmp_path / "bert")])


@pytest.mark.parametrize(("option", "last"), [("layers", 1), ("heads", 2)])
def test_plot_kernels_rejects_unknown_layers_and_heads(drawn, option, last):
    with pytest.raises(
        ToolkitError, match=rf"{option} of .* must be between 1 and {last}, but one"
    ):
        drawn(**{option: [9]})
