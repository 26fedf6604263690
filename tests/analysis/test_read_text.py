import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.analysis import read_text
from toolkit.analysis.read_text import batch_lines, load_reader, read_lines
from toolkit.common.errors import ToolkitError


def test_batch_lines_excludes_special_tokens(trained):
    learner = load_checkpoint(trained)
    [batch] = batch_lines(learner, ["the cat sat on a mat", "dogs [MASK]"])
    special = torch.tensor(learner.tokenizer.vocabulary.special)
    tokens = batch.inputs.tokens
    assert batch.inputs.padding.any() and not batch.inputs.padding[1].any()
    assert batch.included.equal(~torch.isin(tokens, special))
    assert learner.tokenizer.decode(tokens[1][batch.included[1]].tolist()) == "the cat sat on a mat"


def test_batch_lines_truncates_long_lines(trained):
    learner = load_checkpoint(trained)
    [batch] = batch_lines(learner, ["the cat " * 500])
    assert batch.inputs.tokens.shape == (1, 512)


def test_read_lines_skips_blank_lines_and_a_byte_order_mark(tmp_path):
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfone\r\n\n two \n")
    assert read_lines(str(tmp_path / "text")) == ["one", "two"]


def test_read_lines_rejects_blank_text(tmp_path):
    (tmp_path / "text").write_bytes(b"\n \n")
    with pytest.raises(ToolkitError, match=r"--sentences must contain text, but .* is empty"):
        read_lines(str(tmp_path / "text"))


def test_load_reader_rejects_models_that_read_characters(trained, monkeypatch):
    monkeypatch.setattr("toolkit.models.encoder.Encoder.is_word_level", True, raising=False)
    with pytest.raises(ToolkitError, match=r"reads subword text; .* reads words"):
        load_reader(str(trained), "cpu")


def test_load_reader_rejects_generative_models(monkeypatch):
    learner = build_model("transformer_lm_tiny", vocabulary_size=20, task="language_modeling")
    monkeypatch.setattr(read_text, "load_checkpoint", lambda path: learner)
    with pytest.raises(ToolkitError, match=r"reads subword text; a is a generative model"):
        load_reader("a", "cpu")
