"""Tokenizers of Transformers' folders: tokenizer.json, or vocab.txt for BERT's WordPiece."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.common.json_files import JsonObject, decode, read_json
from toolkit.data.tokenizers.huggingface import (
    MAX_WORD_CHARACTERS,
    SPECIAL,
    TOKENIZER_FILE,
    HuggingFaceTokenizer,
    WordPieceTokenizer,
)
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.vocabulary import ROLES

MAX_BYTES = 128 << 20  # a tokenizer of 250,000 pieces has 17 MiB
VOCABULARY_FILE, OLD_SETTINGS_FILE = "vocab.txt", "special_tokens_map.json"
ROLE_SETTINGS = {role: f"{role}_token" for role in ROLES}
USUAL_NAMES = {role: [SPECIAL[role], f"<{role}>", f"<|{role}|>"] for role in ROLES}
USUAL_NAMES["cls"] += ["<s>", "<bos>", "[BOS]"]
USUAL_NAMES["sep"] += ["</s>", "<eos>", "[EOS]"]
FALLBACK_SETTINGS = {"cls": "bos_token", "sep": "eos_token"}


def load_tokenizer(folder: Path, rows: int | None = None) -> Tokenizer:
    """BERT's WordPiece if it is one, else the tokenizer that tokenizer.json describes.

    `folder` may also be a tokenizer.json itself. `rows` is the size of the embedding table, which
    may have unused rows; by default, that of the vocabulary.
    """
    if folder.is_file():
        return from_tokenizer_json(folder, {}, rows)
    settings = read_settings(folder)
    if (folder / TOKENIZER_FILE).exists():
        return from_tokenizer_json(folder / TOKENIZER_FILE, settings, rows)
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


def is_transformers(path: Path) -> bool:
    """Whether it is a tokenizer.json, or a folder with one or with BERT's vocab.txt."""
    return path.is_file() or any((path / it).exists() for it in (TOKENIZER_FILE, VOCABULARY_FILE))


def read_settings(folder: Path) -> JsonObject:
    """What the files of a tokenizer's settings hold; the current one has the last word."""
    paths = [folder / name for name in (OLD_SETTINGS_FILE, TOKENIZER_CONFIG_FILE)]
    read = [read_json(it, JsonObject, "Copy the folder again.") for it in paths if it.exists()]
    return {key: value for them in read for key, value in them.items()}


def from_tokenizer_json(path: Path, settings: JsonObject, rows: int | None) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    try:
        text = read_bytes(path, MAX_BYTES).decode()
        description = decode(text, JsonObject)
        pieces = description["model"]["vocab"]
        if not isinstance(pieces, dict):  # unigram models list their symbols in order
            pieces = {piece: number for number, (piece, _) in enumerate(pieces)}
        added = {token["content"]: token["id"] for token in description.get("added_tokens", [])}
        ids = {**pieces, **added}
        symbols = bert_vocabulary(description, added)
        required_rows = max(ids.values(), default=-1) + 1
        names = template_tokens(description)
        names["unk"] = description["model"].get("unk_token")
        if description["model"].get("unk_id") is not None:
            names["unk"] = [*pieces][description["model"]["unk_id"]]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ToolkitError(
            f"{path} must be a tokenizer.json, but is not ({error!r}). Use that of save_pretrained."
        ) from error
    if symbols is not None:
        lower = bool(description["normalizer"]["lowercase"])
        return build_wordpiece(symbols, lower=lower, rows=rows)
    check_symbol_count(required_rows, rows)
    roles = special_token_ids(ids, settings, names)
    if missing := [ROLE_SETTINGS[role] for role in ROLES if role not in roles]:
        raise ToolkitError(
            f"{path} must have all special tokens, but lacks {', '.join(missing)}. Add what is "
            f"missing with add_special_tokens, and save it again with save_pretrained."
        )
    return HuggingFaceTokenizer(text, roles, rows=rows)


def template_tokens(description: JsonObject) -> dict[str, str | None]:
    """What the post-processor of a tokenizer.json puts before a text and after it."""
    processor = description.get("post_processor") or {}
    for step in processor.get("processors", [processor]):
        if "sep" in step:  # BERT's and RoBERTa's own
            return {"cls": step["cls"][0], "sep": step["sep"][0]}
        if single := step.get("single"):
            first, last = (it.get("SpecialToken", {}).get("id") for it in (single[0], single[-1]))
            return {"cls": first, "sep": last}
    return {}


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
        and isinstance(lower, bool)
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


def build_wordpiece(symbols: list[str], *, lower: bool, rows: int | None) -> WordPieceTokenizer:
    """WordPiece with a symbol for every row."""
    check_symbol_count(len(symbols), rows)
    unused = [f"[no symbol {number}]" for number in range(len(symbols), rows or 0)]
    return WordPieceTokenizer.from_symbols([*symbols, *unused], lowercase=lower)


def check_symbol_count(symbols: int, rows: int | None) -> None:
    """Raise a ToolkitError if the tokenizer has more symbols than the model has rows."""
    if rows is not None and symbols > rows:
        raise ToolkitError(
            f"a tokenizer must have at most as many symbols as its model has rows, but has "
            f"{symbols} for {rows} rows. Use the tokenizer of this model."
        )


def special_token_ids(
    ids: Mapping[str, int], settings: JsonObject, names: Mapping[str, str | None]
) -> dict[str, int]:
    """Role -> id of the special tokens: by the settings, else the tokenizer, else usual names."""
    roles: dict[str, int] = {}
    for role in ROLES:
        tokens = [settings.get(it) for it in (ROLE_SETTINGS[role], FALLBACK_SETTINGS.get(role, ""))]
        found = [it.get("content") if isinstance(it, dict) else it for it in tokens]
        named = [name for name in found if isinstance(name, str) and name][:1]
        candidates = (*named, names.get(role), *USUAL_NAMES[role])
        if known := [ids[name] for name in candidates if name is not None and name in ids]:
            roles[role] = known[0]
    return roles
