"""A codec of ours as files that AutoTokenizer opens: tokenizer.json and what stands beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.conversion.huggingface.tokenizer_import import NAMES, SETTINGS_FILE, VOCABULARY_FILE
from toolkit.conversion.sentencepiece_to_json import described, lower
from toolkit.data.tokenizers.huggingface import TOKENIZER_FILE, GivenTokenizer
from toolkit.data.tokenizers.sentencepiece import SentencePieces
from toolkit.data.tokenizers.tokenizer import Codec
from toolkit.data.tokenizers.word_level import Dictionary
from toolkit.data.tokenizers.wordpiece import SPECIAL, WordPieces, tokenizers

WHITE_SPACE = r"[\s\x1c-\x1f\x85]+"  # what Python's split takes for it


def write_tokenizer(folder: Path, codec: Codec, *, positions: int, token_types: int = 2) -> None:
    """tokenizer.json, tokenizer_config.json, and vocab.txt for BERT's WordPiece."""
    tokenizer = tokenizer_of(codec)
    symbols, roles = codec.vocabulary.symbols, codec.vocabulary.roles
    package = tokenizers()
    special = [symbols[i] for i in sorted(set(roles.values()))]
    there = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    missing = [name for name in special if name not in there]
    tokenizer.add_special_tokens(
        [package.AddedToken(name, special=True, normalized=False) for name in missing]
    )
    refuse_other_ids(tokenizer, codec)
    if roles["cls"] != roles["pad"] and not tokenizer.num_special_tokens_to_add(False):
        tokenizer.post_processor = joined(codec, second=int(token_types > 1))
    tokenizer.save(str(folder / TOKENIZER_FILE))
    types = ["token_type_ids"] if token_types > 1 else []
    settings: dict[str, Any] = {
        **{NAMES[role]: symbols[number] for role, number in roles.items()},
        "model_max_length": positions,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    if isinstance(codec, WordPieces) and set(special) == set(SPECIAL.values()):
        lines = "".join(f"{symbol}\n" for symbol in symbols)
        (folder / VOCABULARY_FILE).write_text(lines, encoding="utf-8", newline="\n")
        settings["tokenizer_class"] = "BertTokenizer"
        settings |= {"do_lower_case": codec.lowercase, "tokenize_chinese_chars": True}
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (folder / SETTINGS_FILE).write_text(text, encoding="utf-8")


def tokenizer_of(codec: Codec) -> Any:
    """The codec as a Tokenizer of the package, special symbols left out."""
    if isinstance(codec, WordPieces):
        return word_pieces(codec)
    if isinstance(codec, SentencePieces):
        return described(codec)
    if isinstance(codec, GivenTokenizer):
        return tokenizers().Tokenizer.from_str(codec.text)
    if isinstance(codec, Dictionary):
        return words(codec)
    raise ToolkitError(
        f"the tokenizer must be WordPiece, SentencePiece, a dictionary of words or a "
        f"{TOKENIZER_FILE} to be exported, but is {codec.kind}. Nothing was written."
    )


def joined(codec: Codec, *, second: int) -> Any:
    """[CLS] a [SEP] b [SEP], the second text of this token type."""
    symbols, roles = codec.vocabulary.symbols, codec.vocabulary.roles
    begin, end = symbols[roles["cls"]], symbols[roles["sep"]]
    return tokenizers().processors.TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {end}:0 $B:{second} {end}:{second}",
        special_tokens=[(begin, roles["cls"]), (end, roles["sep"])],
    )


def word_pieces(codec: WordPieces) -> Any:
    package = tokenizers()
    index = {symbol: i for i, symbol in enumerate(codec.vocabulary.symbols)}
    unknown = codec.vocabulary.symbols[codec.vocabulary.unk]
    tokenizer = package.Tokenizer(package.models.WordPiece(index, unk_token=unknown))
    tokenizer.normalizer = package.normalizers.BertNormalizer(lowercase=codec.lowercase)
    tokenizer.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = package.decoders.WordPiece()
    return tokenizer


def words(codec: Dictionary) -> Any:
    """White space separates; of a symbol listed twice the later one is meant."""
    package, vocabulary = tokenizers(), codec.vocabulary
    index = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
    unknown = vocabulary.symbols[vocabulary.unk]
    tokenizer = package.Tokenizer(package.models.WordLevel(index, unk_token=unknown))
    if codec.lowercase:
        tokenizer.normalizer = package.normalizers.Sequence(lower())
    tokenizer.pre_tokenizer = package.pre_tokenizers.Split(
        package.Regex(WHITE_SPACE), behavior="removed"
    )
    return tokenizer


def refuse_other_ids(tokenizer: Any, codec: Codec) -> None:
    """Every symbol must have the id that the model knows it by."""
    last = {symbol: number for number, symbol in enumerate(codec.vocabulary.symbols)}
    for symbol, number in last.items():
        found = tokenizer.token_to_id(symbol)
        assert found in (None, number), f"{symbol!r} has id {found}, not {number}"
