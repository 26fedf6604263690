"""New pieces of a domain: shorter texts, unchanged logits of old ids, rows that are means."""

import json

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers

from toolkit import load_checkpoint
from toolkit.cli.convert import main
from toolkit.config.serialize import from_dict
from toolkit.conversion.files import ConvertedModel, write_checkpoint
from toolkit.conversion.tokenizer_files import extend_vocabulary
from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_pieces
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.huggingface import to_huggingface
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner

GENERAL = ["the old house by the river", "a garden, and the cats' hill", "cardiogm"] * 9
DOMAIN = ["cardiology and (cardiogram); naïve cardiology", "the cardiology in the river"] * 9
NEW = 12


def unigram():
    """A tokenizer.json of a unigram model, with a mask that was added after its pieces."""
    found = tokenizers.Tokenizer(models.Unigram())
    found.pre_tokenizer, found.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    found.train_from_iterator(GENERAL, trainer)
    found.add_special_tokens(["<mask>"])
    size = found.get_vocab_size()
    roles = {"pad": 0, "cls": 1, "sep": 2, "unk": 3, "mask": size - 1}
    return HuggingFaceTokenizer(found.to_str(), roles, rows=size + 3)


def sentencepiece_bpe():
    model = train_pieces(GENERAL, vocabulary_size=50, algorithm="bpe", character_coverage=1.0)
    return SentencePieceTokenizer(model, lowercase=False)


TOKENIZERS = {
    "unigram": unigram,
    "sentencepiece bpe": sentencepiece_bpe,
    "sentencepiece": lambda: Tokenizer.train(GENERAL, vocabulary_size=45),
    "wordpiece": lambda: Tokenizer.train(GENERAL, kind="wordpiece", vocabulary_size=56),
    "bpe": lambda: Tokenizer.train(GENERAL, kind="bpe", vocabulary_size=300),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_new_pieces_start_from_the_mean_of_old_ones(tmp_path, kind):
    tokenizer = TOKENIZERS[kind]()
    (tmp_path / "domain.txt").write_text("\n".join(DOMAIN), "utf-8")
    run = from_dict({"arch": {"name": "bert_tiny"}, "task": {"name": "mlm"}})
    torch.manual_seed(1)
    sizes = Sizes(tokenizer.sizes)
    tensors = build_learner(run.arch, run.task, sizes).state_dict()
    tensors = {name: torch.randn_like(tensor) / 4 for name, tensor in tensors.items()}
    old = ConvertedModel(run=run, sizes=sizes, tensors=tensors, tokenizer=tokenizer)
    new = extend_vocabulary(old, str(tmp_path / "domain.txt"), NEW)
    for name, model in [("old", old), ("new", new)]:
        write_checkpoint(tmp_path / name, model, tmp_path)
    before, after = load_checkpoint(tmp_path / "old"), load_checkpoint(tmp_path / "new")
    symbols, more = before.tokenizer.vocabulary.symbols, after.tokenizer.vocabulary.symbols
    assert len(more) == len(symbols) + NEW and set(symbols) < set(more)
    assert after.tokenizer.decode(after.tokenizer.encode(DOMAIN[1])) == DOMAIN[1]
    table, rows = before.encoder.token_embedding.weight, after.encoder.token_embedding.weight
    is_new = {i for i, symbol in enumerate(more) if symbol not in symbols}
    parts = [table[i] for i in before.tokenizer.encode("cardiology")]
    [one] = after.tokenizer.encode("cardiology")
    assert one in is_new and torch.allclose(rows[one], torch.stack(parts).mean(0))
    ids = [[more.index(symbols[i]) for i in range(9, 29)]]
    order = [more.index(symbol) for symbol in symbols]
    with torch.no_grad():
        got = to_huggingface(after)(input_ids=torch.tensor(ids)).logits[..., order]
        want = to_huggingface(before)(input_ids=torch.arange(9, 29)[None]).logits
    assert torch.equal(got, want)


def test_extended_model_is_imported_by_the_command(saved, tmp_path, capsys):
    _, folder = saved("BertForMaskedLM")
    (tmp_path / "text.txt").write_text("runs runs\n", "utf-8")
    words = ["import", str(folder), str(tmp_path / "out"), "--extend-vocabulary-from"]
    assert main([*words, str(tmp_path / "text.txt")]) == 2
    assert "require each other" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "text.txt"), "--extend-by", "1"]) == 0
    assert main(["export", str(tmp_path / "out"), str(tmp_path / "exported")]) == 0
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["vocab_size"] == 22
