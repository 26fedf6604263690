"""Tokenizers as Transformers reads them: tokenizer.json, and vocab.txt for BERT's WordPiece."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer as HfTokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, write_json
from toolkit.data.tokenizers.huggingface import (
    SPECIAL,
    TOKENIZER_FILE,
    HuggingFaceTokenizer,
    WordPieceTokenizer,
    lowercase_normalizers,
)
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, parse_model
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.tokenizer_json import ROLE_SETTINGS, VOCABULARY_FILE
from toolkit.data.tokenizers.vocabulary import WORD_START
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

UNIGRAM = 1  # SentencePiece's number of the model type
USER_DEFINED = 4  # SentencePiece's number of the piece type
WHITE_SPACE = r"[\s\x1c-\x1f\x85]+"  # as in str.split
Template = Literal["pair", "source", "prompt", "none"]
"""Special tokens around texts: [CLS] a [SEP] b [SEP], a [SEP], [SEP] a, or none."""


def write_tokenizer(
    folder: Path,
    source: Tokenizer,
    *,
    positions: int,
    token_types: int = 2,
    template: Template = "pair",
) -> None:
    """Write tokenizer.json, tokenizer_config.json, and vocab.txt for BERT's WordPiece."""
    backend, symbols, roles = (
        build_backend(source),
        source.vocabulary.symbols,
        source.vocabulary.roles,
    )
    special = [symbols[i] for i in sorted(set(roles.values()))]
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    backend.add_special_tokens(
        [AddedToken(it, special=True, normalized=False) for it in special if it not in added]
    )
    ids = {symbol: number for number, symbol in enumerate(symbols)}
    assert all(backend.token_to_id(it) in (None, i) for it, i in ids.items()), "symbols keep ids"
    adds_some = backend.num_special_tokens_to_add(False) and template == "pair"
    if roles["cls"] != roles["pad"] and not adds_some:
        backend.post_processor = build_template(source, template, second=int(token_types > 1))
    backend.save(str(folder / TOKENIZER_FILE))
    types = ["token_type_ids"] if token_types > 1 else []
    settings: JsonObject = {
        **{ROLE_SETTINGS[role]: symbols[number] for role, number in roles.items()},
        **({} if template in ("pair", "none") else {"eos_token": symbols[roles["sep"]]}),
        "model_max_length": positions,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    is_bert = isinstance(source, WordPieceTokenizer) and set(special) == set(SPECIAL.values())
    if is_bert and template == "pair":
        lines = "".join(f"{symbol}\n" for symbol in symbols)
        (folder / VOCABULARY_FILE).write_text(lines, encoding="utf-8", newline="\n")
        settings["tokenizer_class"] = "BertTokenizer"
        settings |= {"do_lower_case": source.lowercase, "tokenize_chinese_chars": True}
    write_json(folder / TOKENIZER_CONFIG_FILE, settings, indent=2, ensure_ascii=False)


def build_backend(source: Tokenizer) -> HfTokenizer:
    """The tokenizer as an object of the package tokenizers, without special tokens."""
    if isinstance(source, WordPieceTokenizer):
        return HfTokenizer.from_str(source.backend.to_str())
    if isinstance(source, HuggingFaceTokenizer):
        return HfTokenizer.from_str(source.text)
    if isinstance(source, SentencePieceTokenizer):
        proto = parse_model(source.model)
        check_expressible(proto, commas=source.split_digit_commas)
        pieces = [(piece.piece, piece.score) for piece in proto.pieces]
        return unigram_backend(proto, pieces, source.vocabulary.unk, lowercase=source.lowercase)
    if not isinstance(source, WordLevelTokenizer):
        raise ToolkitError(
            f"Only WordPiece, SentencePiece and word-level tokenizers and those of a "
            f"{TOKENIZER_FILE} can be exported, but the tokenizer is {source.kind}. Nothing was "
            f"written."
        )
    symbols = source.vocabulary.symbols
    index = {symbol: i for i, symbol in enumerate(symbols)}  # of equal symbols the last one counts
    backend = HfTokenizer(models.WordLevel(index, unk_token=symbols[source.vocabulary.unk]))
    if source.lowercase:
        backend.normalizer = normalizers.Sequence(lowercase_normalizers())
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(WHITE_SPACE), behavior="removed")
    return backend


def build_template(source: Tokenizer, template: Template, *, second: int) -> Any:
    """The special tokens of a template, with the token type of the second text."""
    symbols, roles = source.vocabulary.symbols, source.vocabulary.roles
    begin, end = symbols[roles["cls"]], symbols[roles["sep"]]
    before, after = {
        "pair": (f"{begin}:0 ", f" {end}"),
        "source": ("", f" {end}"),
        "prompt": (f"{end}:0 ", ""),
        "none": ("", ""),
    }[template]
    first, last = (after and f"{after}:{number}" for number in (0, second))
    return processors.TemplateProcessing(
        single=f"{before}$A:0{first}",
        pair=f"{before}$A:0{first} $B:{second}{last}",
        special_tokens=[(begin, roles["cls"]), (end, roles["sep"])],
    )


def unigram_backend(
    proto: Any, pieces: Sequence[tuple[str, float]], unknown: int, *, lowercase: bool
) -> HfTokenizer:
    """A SentencePiece model with these pieces in the order of their ids.

    Normalization becomes normalizers of the package `tokenizers`: lowercasing without accents, the
    model's character map, and merged spaces. The space after a special token remains: it starts a
    word. If two segmentations of a word are equally probable, rounding may choose differently.
    """
    spec, steps = proto.normalizer_spec, lowercase_normalizers() if lowercase else []
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        ends = " +$" if spec.add_dummy_prefix else "^ +| +$"
        steps.append(normalizers.Replace(Regex(ends), ""))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    start: Literal["first", "never"] = "first" if spec.add_dummy_prefix else "never"
    backend = HfTokenizer(models.Unigram(list(pieces), unknown, proto.trainer_spec.byte_fallback))
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START, prepend_scheme=start)
    backend.decoder = decoders.Metaspace(WORD_START, prepend_scheme=start)
    return backend


def check_expressible(proto: Any, *, commas: bool = False) -> None:
    """Raise if a tokenizer.json cannot give exactly the same ids."""
    reasons = {
        "splits commas from digits (--split-digit-commas)": commas,
        "is not a unigram model": proto.trainer_spec.model_type != UNIGRAM,
        "has user-defined symbols": any(p.type == USER_DEFINED for p in proto.pieces),
        "marks the ends of words": proto.trainer_spec.treat_whitespace_as_suffix,
        "does not escape spaces": not proto.normalizer_spec.escape_whitespaces,
    }
    if applicable := [reason for reason, applies in reasons.items() if applies]:
        raise ToolkitError(
            f"a SentencePiece tokenizer must be a plain unigram model to become a tokenizer.json "
            f"with the same ids, but this one {' and '.join(applicable)}. Nothing was written."
        )
