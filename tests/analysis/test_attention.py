import json

import pytest
import torch

from toolkit.analysis.attention import head_table, plot_attention
from toolkit.analysis.plots.attention import HeadMap
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import AttentionConfig


@pytest.fixture
def drawn(trained, tmp_path, capsys):
    """The JSON lines that drawing a sentence's maps gives, and the text output."""

    def draw(sentence="the cat [MASK]", **options):
        output = str(tmp_path / "a.png")
        asked = {"path": [str(trained)], "sentence": sentence, "output": output, "json": "-"}
        plot_attention(AttentionConfig(**(asked | options)))
        captured = capsys.readouterr()
        return [json.loads(line) for line in captured.out.splitlines()], captured.err

    return draw


def maps_of(found):
    """The lines of the sentence and of its maps."""
    records, captured = found
    return [r for r in records if r["event"] != "concentration"], captured


def test_plot_attention_draws_prints_and_writes_every_head(drawn, tmp_path):
    [sentence, *maps], captured = maps_of(drawn())
    assert sentence["tokens"][0] == "[CLS]" and sentence["tokens"][-2:] == ["[MASK]", "[SEP]"]
    assert [(m["layer"], m["head"]) for m in maps] == [(1, 1), (1, 2)]
    rows = torch.tensor(maps[0]["weights"])
    assert rows.shape == (len(sentence["tokens"]),) * 2
    torch.testing.assert_close(rows.sum(1), torch.ones(len(rows)))
    assert "layer  head" in captured and (tmp_path / "a.png").exists()


def test_plot_attention_averages_heads(drawn):
    [_, one, two], _ = maps_of(drawn())
    [_, mean], _ = maps_of(drawn(mean_heads=True))
    weights = [torch.tensor(m["weights"]) for m in (one, two, mean)]
    torch.testing.assert_close((weights[0] + weights[1]) / 2, weights[2])
    assert mean["head"] is None


def test_plot_attention_draws_mean_maps_of_several_models(drawn, trained):
    [_, one, two, *_], _ = drawn()
    records, captured = drawn(mean=True, path=[str(trained)] * 2)
    assert [r["event"] for r in records] == [*["sentence", "map"] * 2, *["concentration"] * 4]
    weights = [torch.tensor(m["weights"]) for m in (one, two, records[1])]
    torch.testing.assert_close((weights[0] + weights[1]) / 2, weights[2])
    assert records[1]["layer"] is records[1]["head"] is None and "previous" not in captured


def test_plot_attention_reports_the_concentration(drawn):
    records, captured = drawn("the cat sat on a mat")
    mean, layer = (r for r in records if r["event"] == "concentration")
    assert mean["mean"] == layer["mean"] > 0 and (mean["layer"], layer["layer"]) == (None, 1)
    assert "C: attention to tokens at most 4 away" in captured and "1 sentence;" in captured


def test_plot_attention_draws_the_first_sentence_of_a_file(drawn, tmp_path):
    (tmp_path / "text").write_text("the cat\n\na mat and the cat saw how dogs run\n")
    records, _ = drawn("", sentences=str(tmp_path / "text"), mean_heads=True)
    assert records[0]["tokens"] == drawn("the cat")[0][0]["tokens"]
    assert [r["short"] + r["sentences"] for r in records if "short" in r] == [2, 2]


def test_plot_attention_draws_selected_heads(drawn):
    [_, only], _ = maps_of(drawn(heads=[2]))
    assert only["head"] == 2


def test_head_table_gives_shares_of_attention():
    weights = [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]
    table = head_table([HeadMap(1, 1, weights)], [True, False, False])
    [row] = table.rows
    assert [cell.strip() for cell in row[2:]] == ["16.7%", "33.3%", "50.0%", "16.7%", "1.3"]


def test_plot_attention_rejects_long_sentences_and_unknown_heads(drawn):
    with pytest.raises(ToolkitError, match=r"--sentence must have at most 512 tokens for this mod"):
        drawn("the cat " * 500)
    with pytest.raises(ToolkitError, match=r"heads of .* must be between 1 and 2, but one is 3"):
        drawn(heads=[3])
