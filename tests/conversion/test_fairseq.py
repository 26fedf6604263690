"""RoBERTa of fairseq: the same numbers as Transformers', text as far as the files beside it say."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch
import transformers

from toolkit import load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.conversion.architectures import config_mismatches
from toolkit.conversion.fairseq import ROBERTA, read_settings, read_tokenizer
from toolkit.conversion.files import OpaqueObject
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_pieces
from toolkit.models.interface import Inputs

WORDS = ["the", "cat", "sat", "on", "mat"]
ROWS = 4 + len(WORDS) + 1
ARGS = {
    "arch": "roberta_base",
    "encoder_layers": 2,
    "encoder_embed_dim": 24,
    "encoder_attention_heads": 4,
    "encoder_ffn_embed_dim": 40,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "activation_fn": "gelu",
}
LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}


def roberta():
    """Transformers' RoBERTa with random weights, its only token type without effect."""
    config = transformers.RobertaConfig(
        vocab_size=ROWS,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=18,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    torch.manual_seed(5)
    model = transformers.RobertaForMaskedLM(config).eval()
    with torch.no_grad():
        for tensor in {id(p): p for p in model.parameters()}.values():
            tensor.normal_(0, 0.3)
        model.roberta.embeddings.token_type_embeddings.weight.zero_()
    return model


def as_fairseq(model):
    """The model's tensors under fairseq's names."""
    found, place = {}, "decoder.sentence_encoder"
    names = {f".{hf_part}.": f".{part}." for hf_part, part in LAYER.items()} | {
        "roberta.embeddings.word_embeddings": f"{place}.embed_tokens",
        "roberta.embeddings.position_embeddings": f"{place}.embed_positions",
        "roberta.embeddings.LayerNorm": f"{place}.emb_layer_norm",
        "roberta.encoder.layer": f"{place}.layers",
        "lm_head.decoder": "lm_head",
        "lm_head": "decoder.lm_head",
    }
    for name, tensor in model.state_dict().items():
        new = name
        for theirs, ours in names.items():
            new = new.replace(theirs, ours)
        if "token_type" not in name and "decoder.bias" not in name:
            found[new] = tensor
    found[f"{place}.version"] = torch.ones(1)
    return found


@pytest.fixture
def saved(tmp_path):
    """Saves a checkpoint of fairseq with its dict.txt; gives the model and the file."""

    def save(zipped=True, **changes):
        model = roberta()
        folder = tmp_path / "roberta"
        folder.mkdir(exist_ok=True)
        args = argparse.Namespace(**ARGS)
        whole = {"args": args, "model": as_fairseq(model), "optimizer_history": [], **changes}
        torch.save(whole, folder / "model.pt", _use_new_zipfile_serialization=zipped)
        (folder / "dict.txt").write_text("".join(f"{word} 9\n" for word in WORDS))
        return model, folder / "model.pt"

    return save


def same_scores(model, checkpoint):
    learner = load_checkpoint(checkpoint)
    torch.manual_seed(1)
    tokens = torch.randint(2, ROWS, (3, 11))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    tokens[padding] = 1
    with torch.no_grad():
        want = model(input_ids=tokens, attention_mask=(~padding).long()).logits
        states = learner.encoder(Inputs(tokens=tokens, padding=padding)).states.flatten(0, 1)
        got = learner.task.head(states, learner.encoder.token_embedding.weight).view(want.shape)
    torch.testing.assert_close(got[~padding], want[~padding], atol=1e-5, rtol=1e-5)
    return learner


@pytest.mark.parametrize("zipped", [True, False])
def test_imported_roberta_equals_transformers(saved, converted, zipped):
    model, file = saved(zipped=zipped)
    learner = same_scores(model, converted(file))
    assert (
        learner.tokenizer.encode("the cat barks") == [4, 5, 3]
        and len(learner.tokenizer.vocabulary) == ROWS
    )


def test_joint_projections_of_old_files_are_split(saved, converted):
    tensors = as_fairseq(roberta())
    for part in ("weight", "bias"):
        for layer in range(2):
            name = f"decoder.sentence_encoder.layers.{layer}.self_attn."
            three = [tensors.pop(f"{name}{p}_proj.{part}") for p in "qkv"]
            tensors[f"{name}in_proj_{part}"] = torch.cat(three)
    model, file = saved(model=tensors)
    same_scores(model, converted(file))


@pytest.mark.slow
def test_roberta_with_settings_under_cfg_is_imported(saved, converted):
    omegaconf = pytest.importorskip("omegaconf")
    plain = {"cfg": {"model": argparse.Namespace(**ARGS)}, "args": None}
    model, file = saved(**plain)
    same_scores(model, converted(file, name="plain"))
    structured = {"cfg": omegaconf.OmegaConf.create({"model": ARGS}), "args": None}
    same_scores(model, converted(saved(**structured)[1], name="structured"))


@pytest.mark.slow
def test_imported_roberta_is_exported_to_transformers(saved, converted):
    model, file = saved()
    exported = transformers.AutoModelForMaskedLM.from_pretrained(converted(converted(file), "hf"))
    tokens = torch.randint(4, ROWS, (2, 9))
    with torch.no_grad():
        got, want = (m.eval()(input_ids=tokens).logits for m in (exported, model))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_roberta_with_mismatches_is_rejected_and_nothing_is_written(saved, converted, capsys):
    tensors = as_fairseq(roberta())
    del tensors["decoder.lm_head.bias"]
    tensors["decoder.sentence_encoder.layers.0.fc1.weight"] = torch.ones(3, 3)
    tensors["decoder.extra"] = torch.ones(1)
    tensors["decoder.layers.0.self_attn.in_proj_bias"] = torch.tensor(1.0)
    _, file = saved(model=tensors)
    with pytest.raises(ToolkitError, match=r"4 mismatches \(missing tensor, misshapen tensor, ext"):
        converted(file)
    printed = capsys.readouterr().err
    assert "model.pt: lm_head.bias" in printed and "3 x 3" in printed and "40 x 24" in printed
    _, file = saved(args=argparse.Namespace(**{**ARGS, "activation_fn": "relu"}))
    with pytest.raises(ToolkitError, match=r"1 mismatch \(setting\)"):
        converted(file)
    _, file = saved(args=argparse.Namespace(**{**ARGS, "dropout": 10**400}))
    with pytest.raises(ToolkitError, match=r"mismatch|dropout"):
        converted(file)
    assert not list(file.parent.parent.glob("*-toolkit"))


def test_roberta_reads_text_with_the_bpe_files_of_gpt_2(saved, converted):
    tokenizers = pytest.importorskip("tokenizers")
    _, file = saved()
    pieces = ["t", "h", "e", "c", "a", "th", "the", "\u0120", "\u0120c", "\u0120ca"]
    merges = ["#version: 0.2", "t h", "th e", "\u0120 c", "\u0120c a"]
    (file.parent / "encoder.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    (file.parent / "vocab.bpe").write_text("\n".join(merges) + "\n")
    ids = ["6", "9", "0", "4", "8"]  # GPT-2's ids are the dictionary's symbols
    (file.parent / "dict.txt").write_text("".join(f"{i} 1\n" for i in ids))
    tokenizer = load_checkpoint(converted(file)).tokenizer
    assert tokenizers and tokenizer.kind == "huggingface"
    assert tokenizer.encode("the cat") == [4, 5, 6] and tokenizer.encode("h") == [
        tokenizer.vocabulary.unk
    ]
    assert tokenizer.decode([4, 5, 6]) == "the cat"


def test_mask_includes_the_space_before_it_as_in_transformers(saved, converted):
    _, file = saved()
    (file.parent / "encoder.json").write_text(
        json.dumps({p: i for i, p in enumerate("abcd\u0120")})
    )
    (file.parent / "vocab.bpe").write_text("#version: 0.2\n")
    (file.parent / "dict.txt").write_text("".join(f"{i} 1\n" for i in range(5)))
    checkpoint = converted(file)
    tokenizer = load_checkpoint(checkpoint).tokenizer
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(converted(checkpoint, "hf"))
    ids = hf_tokenizer("a <mask> b", add_special_tokens=False)["input_ids"]
    assert (
        ids
        == tokenizer.encode_parsing_special("a [MASK] b")
        == [4, tokenizer.vocabulary.mask, 8, 5]
    )


def inert(**state):
    made = OpaqueObject()
    made.__setstate__(state)
    return made


def test_settings_in_themselves_and_shared_ones_are_not_expanded():
    whole, shared = inert(), []
    for _ in range(100):
        shared = [shared, shared]
    whole.__setstate__({"encoder_layers": whole, "activation_fn": shared, "dropout": 0.5})
    settings = read_settings({"args": whole}, Path("x"))
    expected = {"encoder_layers": "dict", "activation_fn": "list", "dropout": 0.5}
    assert settings == expected
    assert {problem.found for problem in config_mismatches(ROBERTA, settings, {})} >= {
        "'dict'",
        "list",
    }


TEXTS = ["the cat sat on the mat", "a cat and a dog ran", "dogs run far and cats sit"]


@pytest.fixture
def model():
    return train_pieces(TEXTS * 9, vocabulary_size=40)


def write_dictionary(folder, symbols):
    (folder / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in symbols), "utf-8")
    return 4 + len(symbols) + 1


def test_sentencepiece_gets_the_ids_of_dict_txt(model, tmp_path):
    plain = SentencePieceTokenizer(model, lowercase=False)
    pieces = plain.vocabulary.symbols[3:-4][::-1]  # in another order
    rows = write_dictionary(tmp_path, pieces)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    tokenizer = read_tokenizer(tmp_path / "model.pt", rows)
    assert tokenizer.vocabulary.roles == {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": rows - 1}
    for text in TEXTS:
        named = [plain.vocabulary.symbols[i] for i in plain.encode(text)]
        assert [tokenizer.vocabulary.symbols[i] for i in tokenizer.encode(text)] == named
        assert tokenizer.decode(tokenizer.encode(text)) == text
