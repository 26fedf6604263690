import json

import pytest

from toolkit.analysis.kernels import plot_kernels
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import KernelsConfig
from toolkit.training.run import run


@pytest.fixture
def drawn(trained, tmp_path, capsys):
    """The JSON lines that drawing a small run's kernels gives, and what is said on stderr."""

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
        said = capsys.readouterr()
        return [json.loads(line) for line in said.out.splitlines()], said.err

    return draw


def test_every_kernel_is_drawn_printed_and_written(drawn, tmp_path):
    records, said = drawn()
    assert [(r["event"], r["layer"], r["kernel"], r["by"]) for r in records] == [
        ("kernel", 1, "fixed", "head"),
        ("kernel", 1, "query", "head"),
    ]
    assert len(records[1]["mean"]) == 2 and len(records[1]["deviation"][0]) == 17
    assert "layer  kernel  head" in said and (tmp_path / "k.png").exists()


def test_heads_and_a_radius_choose(drawn):
    records, _ = drawn(heads=[2], radius=3)
    assert records[0]["heads"] == [2] and records[0]["offsets"] == [-3, -2, -1, 0, 1, 2, 3]


def test_several_checkpoints_are_told_apart(drawn, trained):
    records, said = drawn(str(trained / "checkpoint_last"))
    assert len({r["checkpoint"] for r in records}) == 2 and "checkpoint_last\n" in said


def test_without_text_the_kernels_that_need_it_are_left_out_and_that_is_told(drawn):
    records, said = drawn(text="")
    assert [r["kernel"] for r in records] == ["fixed"]
    assert "query kernels depend on the text. Pass --sentences FILE to draw" in said


def test_without_text_and_without_fixed_kernels_there_is_nothing_to_draw(config, drawn, tmp_path):
    run(config(max_update=1, arch__fixed=False, save_dir=str(tmp_path / "dynamic")))
    with pytest.raises(ToolkitError, match=r"the query kernels of .* depend on the text. Pass"):
        drawn(path=[str(tmp_path / "dynamic")], text="")


def test_a_model_without_kernels_is_told_in_one_line(config, drawn, tmp_path):
    shape = {"arch": "bert_tiny", "max_update": 1, "save_dir": str(tmp_path / "bert")}
    run(config(**shape))
    with pytest.raises(ToolkitError, match=r"requires a model with kernels, .* has none. Draw"):
        drawn(path=[str(tmp_path / "bert")])


@pytest.mark.parametrize(("option", "last"), [("layers", 1), ("heads", 2)])
def test_a_layer_or_head_that_is_not_there_is_told(drawn, option, last):
    with pytest.raises(
        ToolkitError, match=rf"{option} of .* must be between 1 and {last}, but one"
    ):
        drawn(**{option: [9]})
