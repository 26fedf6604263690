"""Import of the tokenizer of a Hugging Face Transformers folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, decode, read_json, read_text
from toolkit.data.tokenizers.huggingface import TOKENIZER_FILE, HuggingFaceTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import ROLES
from toolkit.data.tokenizers.wordpiece import MAX_WORD_CHARACTERS, SPECIAL, WordPieceTokenizer

MAX_BYTES = 128 << 20  # a tokenizer of 250,000 pieces has 17 MiB
VOCABULARY_FILE, SETTINGS_FILE = "vocab.txt", "tokenizer_config.json"
OLD_SETTINGS_FILE = "special_tokens_map.json"


def load_tokenizer(folder: Path, rows: int) -> Tokenizer:
    """BERT's WordPiece if it is one, else the tokenizer that tokenizer.json describes."""
    settings = read_settings(folder)
    if (folder / TOKENIZER_FILE).exists():
        text = read_text(folder / TOKENIZER_FILE, MAX_BYTES)
        return from_tokenizer_json(text, settings, rows)
    if not (folder / VOCABULARY_FILE).exists():
        raise ToolkitError(
            f"{folder} must hold {TOKENIZER_FILE} or {VOCABULARY_FILE}, but has neither. Save "
            f"the tokenizer to the same folder with save_pretrained."
        )
    lower = settings.get("do_lower_case", True) is True
    check_bert_splitting(folder, settings, lower=lower)
    tokenizer = WordPieceTokenizer.from_file(folder / VOCABULARY_FILE, lowercase=lower)
    return build_wordpiece(tokenizer.vocabulary.symbols, lower=lower, rows=rows)


def read_settings(folder: Path) -> JsonObject:
    """Settings from the optional files of the tokenizer."""
    settings: JsonObject = {}
    for name in (OLD_SETTINGS_FILE, SETTINGS_FILE):
        if (folder / name).exists():
            settings |= read_json(folder / name, JsonObject, "Copy the folder again.")
    return settings


def check_bert_splitting(folder: Path, settings: JsonObject, *, lower: bool) -> None:
    """Raise if vocab.txt alone does not determine how text is split."""
    chinese, accents = settings.get("tokenize_chinese_chars", True), settings.get("strip_accents")
    if chinese is not True or accents not in (None, lower):
        raise ToolkitError(
            f"{folder / SETTINGS_FILE} must describe BERT's own splitting of words, but has "
            f"tokenize_chinese_chars {chinese} and strip_accents {accents}. Save the tokenizer as "
            f"{TOKENIZER_FILE} too."
        )


def build_wordpiece(symbols: list[str], *, lower: bool, rows: int) -> WordPieceTokenizer:
    """WordPiece with a symbol for every row of the embedding table, which may have unused rows."""
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


def from_tokenizer_json(text: str, settings: JsonObject, rows: int) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    try:
        description = decode(text, JsonObject)
        symbols, ids = bert_vocabulary(description), symbol_ids(description)
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


def bert_vocabulary(description: JsonObject) -> list[str] | None:
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
    added, special = added_token_ids(description), set(SPECIAL.values())
    has_all_ids = sorted(index.values()) == list(range(len(index)))
    adds_nothing = added.items() <= index.items() and added.keys() <= special
    if not (has_all_ids and adds_nothing and special <= index.keys()):
        return None
    return sorted(index, key=lambda symbol: index[symbol])


ROLE_SETTINGS = {"pad": "pad_token", "cls": "cls_token", "sep": "sep_token", "mask": "mask_token"}
ROLE_SETTINGS |= {"unk": "unk_token"}
FALLBACK_SETTINGS = {"cls": "bos_token", "sep": "eos_token"}


def special_token_ids(ids: Mapping[str, int], settings: JsonObject) -> dict[str, int]:
    """Role -> id of the special tokens that the settings name."""
    roles: dict[str, int] = {}
    for role in ROLES:
        name = token_text(settings.get(ROLE_SETTINGS[role])) or token_text(
            settings.get(FALLBACK_SETTINGS.get(role, ""))
        )
        for text in (name, SPECIAL[role], f"<{role}>"):
            if text is not None and text in ids:
                roles[role] = ids[text]
                break
    if missing := [ROLE_SETTINGS[role] for role in ROLES if role not in roles]:
        raise ToolkitError(
            f"{SETTINGS_FILE} must name the special symbols of {TOKENIZER_FILE}, but "
            f"{', '.join(missing)} is missing. Use the file written by save_pretrained."
        )
    return roles


def symbol_ids(description: JsonObject) -> dict[str, int]:
    """Symbol -> id; unigram models list their symbols in order."""
    pieces = description["model"]["vocab"]
    if not isinstance(pieces, dict):
        pieces = {piece: number for number, (piece, _) in enumerate(pieces)}
    return {**pieces, **added_token_ids(description)}


def added_token_ids(description: JsonObject) -> dict[str, int]:
    """Added tokens of a tokenizer.json -> their ids."""
    return {token["content"]: token["id"] for token in description.get("added_tokens", [])}


def token_text(token: object) -> str | None:
    """Text of a special token, which is a string or an object with its content."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None
