"""Tokenizers of Transformers' folders: tokenizer.json, or vocab.txt for BERT's WordPiece."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
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
from toolkit.common.files import read_bytes
from toolkit.common.json_files import JsonObject, decode, read_json, write_json
from toolkit.data.tokenizers.huggingface import (
    MAX_WORD_CHARACTERS,
    SPECIAL,
    TOKENIZER_FILE,
    HuggingFaceTokenizer,
    WordPieceTokenizer,
)
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, parse_model
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.vocabulary import ROLES, WORD_START
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

MAX_BYTES = 128 << 20  # a tokenizer of 250,000 pieces has 17 MiB
VOCABULARY_FILE, OLD_SETTINGS_FILE = "vocab.txt", "special_tokens_map.json"
ROLE_SETTINGS = {"pad": "pad_token", "cls": "cls_token", "sep": "sep_token", "mask": "mask_token"}
ROLE_SETTINGS |= {"unk": "unk_token"}
FALLBACK_SETTINGS = {"cls": "bos_token", "sep": "eos_token"}
UNIGRAM = 1  # SentencePiece's number of the model type
USER_DEFINED = 4  # SentencePiece's number of the piece type
WHITE_SPACE = r"[\s\x1c-\x1f\x85]+"  # as in str.split
FINAL_SIGMA = r"(?<=[\p{L}\p{Nl}])\u03a3(?![\p{L}\p{Nl}])"
"""A capital sigma at a word's end, which Python lowercases to the final sigma."""

Template = Literal["pair", "source", "prompt", "none"]
"""Special tokens around texts: [CLS] a [SEP] b [SEP], a [SEP], [SEP] a, or none."""


def load_tokenizer(folder: Path, rows: int) -> Tokenizer:
    """BERT's WordPiece if it is one, else the tokenizer that tokenizer.json describes.

    `rows` is the size of the embedding table, which may have unused rows.
    """
    settings = read_settings(folder)
    if (folder / TOKENIZER_FILE).exists():
        text = read_bytes(folder / TOKENIZER_FILE, MAX_BYTES)
        return from_tokenizer_json(text.decode(), settings, rows)
    if not (folder / VOCABULARY_FILE).exists():
        raise ToolkitError(
            f"{folder} must hold {TOKENIZER_FILE} or {VOCABULARY_FILE}, but has neither. Save "
            f"the tokenizer to the same folder with save_pretrained."
        )
    lower = settings.get("do_lower_case", True) is True
    chinese, accents = settings.get("tokenize_chinese_chars", True), settings.get("strip_accents")
    if chinese is not True or accents not in (None, lower):
        raise ToolkitError(
            f"{folder / TOKENIZER_CONFIG_FILE} must describe BERT's own splitting of words, but "
            f"has tokenize_chinese_chars {chinese} and strip_accents {accents}. Save the tokenizer "
            f"as {TOKENIZER_FILE} too."
        )
    tokenizer = WordPieceTokenizer.from_file(folder / VOCABULARY_FILE, lowercase=lower)
    return build_wordpiece(tokenizer.vocabulary.symbols, lower=lower, rows=rows)


def read_settings(folder: Path) -> JsonObject:
    """What the files of a tokenizer's settings hold; the current one has the last word."""
    paths = [folder / name for name in (OLD_SETTINGS_FILE, TOKENIZER_CONFIG_FILE)]
    read = [read_json(it, JsonObject, "Copy the folder again.") for it in paths if it.exists()]
    return {key: value for them in read for key, value in them.items()}


def from_tokenizer_json(text: str, settings: JsonObject, rows: int) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    try:
        description = decode(text, JsonObject)
        pieces = description["model"]["vocab"]
        if not isinstance(pieces, dict):  # unigram models list their symbols in order
            pieces = {piece: number for number, (piece, _) in enumerate(pieces)}
        added = {token["content"]: token["id"] for token in description.get("added_tokens", [])}
        ids = {**pieces, **added}
        symbols = bert_vocabulary(description, added)
        required_rows = max(ids.values(), default=-1) + 1
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ToolkitError(
            f"{TOKENIZER_FILE} must describe a tokenizer, but does not ({error!r}). Use the file "
            f"written by save_pretrained."
        ) from error
    if symbols is not None:
        lower = bool(description["normalizer"]["lowercase"])
        return build_wordpiece(symbols, lower=lower, rows=rows)
    check_symbol_count(required_rows, rows)
    return HuggingFaceTokenizer(text, special_token_ids(ids, settings), rows=rows)


def bert_vocabulary(description: JsonObject, added: Mapping[str, int]) -> list[str] | None:
    """Symbols in the order of their ids if the tokenizer is exactly BERT's, else None."""
    model, normalizer = description["model"], description.get("normalizer") or {}
    pre_tokenizer = description.get("pre_tokenizer") or {}
    lower = normalizer.get("lowercase")
    is_bert = (
        model.get("type") == "WordPiece"
        and model.get("continuing_subword_prefix", "##") == "##"
        and model.get("unk_token") == SPECIAL["unk"]
        and model.get("max_input_chars_per_word", MAX_WORD_CHARACTERS) == MAX_WORD_CHARACTERS
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text") is True
        and normalizer.get("handle_chinese_chars") is True
        and normalizer.get("strip_accents") in (None, lower)
        and pre_tokenizer.get("type") == "BertPreTokenizer"
    )
    if not is_bert:
        return None
    index: dict[str, int] = model["vocab"]
    special = set(SPECIAL.values())
    has_all_ids = sorted(index.values()) == list(range(len(index)))
    adds_nothing = added.items() <= index.items() and added.keys() <= special
    if not (has_all_ids and adds_nothing and special <= index.keys()):
        return None
    return sorted(index, key=lambda symbol: index[symbol])


def build_wordpiece(symbols: list[str], *, lower: bool, rows: int) -> WordPieceTokenizer:
    """WordPiece with a symbol for every row."""
    check_symbol_count(len(symbols), rows)
    unused = [f"[no symbol {number}]" for number in range(len(symbols), rows)]
    return WordPieceTokenizer.from_symbols([*symbols, *unused], lowercase=lower)


def check_symbol_count(symbols: int, rows: int) -> None:
    """Raise a ToolkitError if the tokenizer has more symbols than the model has rows."""
    if symbols > rows:
        raise ToolkitError(
            f"a tokenizer must have at most as many symbols as its model has rows, but has "
            f"{symbols} for {rows} rows. Use the tokenizer of this model."
        )


def special_token_ids(ids: Mapping[str, int], settings: JsonObject) -> dict[str, int]:
    """Role -> id of the special tokens that the settings name."""
    roles: dict[str, int] = {}
    for role in ROLES:
        tokens = [settings.get(it) for it in (ROLE_SETTINGS[role], FALLBACK_SETTINGS.get(role, ""))]
        names = [it.get("content") if isinstance(it, dict) else it for it in tokens]
        named = [name for name in names if isinstance(name, str) and name][:1]
        if known := [ids[text] for text in (*named, SPECIAL[role], f"<{role}>") if text in ids]:
            roles[role] = known[0]
    if missing := [ROLE_SETTINGS[role] for role in ROLES if role not in roles]:
        raise ToolkitError(
            f"{TOKENIZER_CONFIG_FILE} must name the special symbols of {TOKENIZER_FILE}, but "
            f"{', '.join(missing)} is missing. Use the file written by save_pretrained."
        )
    return roles


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


def lowercase_normalizers() -> list[Any]:
    """NFKD, drop combining marks, lowercase, as in toolkit.data.tokenizers.offsets."""
    return [
        normalizers.NFKD(),
        normalizers.Replace(Regex(combining_characters()), ""),
        normalizers.Replace(Regex(FINAL_SIGMA), "\u03c2"),
        normalizers.Lowercase(),
    ]


@cache
def combining_characters() -> str:
    """Regex class of the combining characters of unicodedata."""
    codes = (code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code)))
    runs = (list(run) for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]))
    return "[" + "".join(f"\\x{{{run[0][1]:x}}}-\\x{{{run[-1][1]:x}}}" for run in runs) + "]"
