"""Export of a tokenizer as files for AutoTokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, write_json
from toolkit.conversion.huggingface.tokenizer_import import (
    ROLE_SETTINGS,
    SETTINGS_FILE,
    VOCABULARY_FILE,
)
from toolkit.conversion.sentencepiece_to_json import (
    PostProcessor,
    lowercase_normalizers,
    sentencepiece_tokenizer,
)
from toolkit.data.tokenizers.huggingface import TOKENIZER_FILE, HuggingFaceTokenizer
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wordpiece import (
    SPECIAL,
    HfTokenizer,
    WordPieceTokenizer,
    import_tokenizers,
)

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
    hf_tokenizer = build_hf_tokenizer(source)
    symbols, roles = source.vocabulary.symbols, source.vocabulary.roles
    package = import_tokenizers()
    special = [symbols[i] for i in sorted(set(roles.values()))]
    added = {token.content for token in hf_tokenizer.get_added_tokens_decoder().values()}
    missing = [name for name in special if name not in added]
    hf_tokenizer.add_special_tokens(
        [package.AddedToken(name, special=True, normalized=False) for name in missing]
    )
    check_same_ids(hf_tokenizer, source)
    adds_some = hf_tokenizer.num_special_tokens_to_add(False) and template == "pair"
    if roles["cls"] != roles["pad"] and not adds_some:
        hf_tokenizer.post_processor = build_template(source, template, second=int(token_types > 1))
    hf_tokenizer.save(str(folder / TOKENIZER_FILE))
    types = ["token_type_ids"] if token_types > 1 else []
    settings: JsonObject = {
        **{ROLE_SETTINGS[role]: symbols[number] for role, number in roles.items()},
        **({} if template in ("pair", "none") else {"eos_token": symbols[roles["sep"]]}),
        "model_max_length": positions,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    is_bert = isinstance(source, WordPieceTokenizer) and set(special) == set(SPECIAL.values())
    if isinstance(source, WordPieceTokenizer) and is_bert and template == "pair":
        lines = "".join(f"{symbol}\n" for symbol in symbols)
        (folder / VOCABULARY_FILE).write_text(lines, encoding="utf-8", newline="\n")
        settings["tokenizer_class"] = "BertTokenizer"
        settings |= {"do_lower_case": source.lowercase, "tokenize_chinese_chars": True}
    write_json(folder / SETTINGS_FILE, settings, indent=2, ensure_ascii=False)


def build_hf_tokenizer(source: Tokenizer) -> HfTokenizer:
    """The tokenizer as a `tokenizers.Tokenizer`, without special tokens."""
    if isinstance(source, WordPieceTokenizer):
        return wordpiece_tokenizer(source)
    if isinstance(source, SentencePieceTokenizer):
        return sentencepiece_tokenizer(source)
    if isinstance(source, HuggingFaceTokenizer):
        hf_tokenizer: HfTokenizer = import_tokenizers().Tokenizer.from_str(source.text)
        return hf_tokenizer
    if isinstance(source, WordLevelTokenizer):
        return word_level_tokenizer(source)
    raise ToolkitError(
        f"Only WordPiece, SentencePiece and word-level tokenizers and those of a {TOKENIZER_FILE} "
        f"can be exported, but the tokenizer is {source.kind}. Nothing was written."
    )


def build_template(source: Tokenizer, template: Template, *, second: int) -> PostProcessor:
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
    processor: PostProcessor = import_tokenizers().processors.TemplateProcessing(
        single=f"{before}$A:0{first}",
        pair=f"{before}$A:0{first} $B:{second}{last}",
        special_tokens=[(begin, roles["cls"]), (end, roles["sep"])],
    )
    return processor


def wordpiece_tokenizer(source: WordPieceTokenizer) -> HfTokenizer:
    """A WordPiece tokenizer as an object of the package tokenizers."""
    package = import_tokenizers()
    index = {symbol: i for i, symbol in enumerate(source.vocabulary.symbols)}
    unknown = source.vocabulary.symbols[source.vocabulary.unk]
    hf_tokenizer: HfTokenizer = package.Tokenizer(
        package.models.WordPiece(index, unk_token=unknown)
    )
    hf_tokenizer.normalizer = package.normalizers.BertNormalizer(lowercase=source.lowercase)
    hf_tokenizer.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    hf_tokenizer.decoder = package.decoders.WordPiece()
    return hf_tokenizer


def word_level_tokenizer(source: WordLevelTokenizer) -> HfTokenizer:
    """Split at white space; of duplicate symbols the last id counts."""
    package, vocabulary = import_tokenizers(), source.vocabulary
    index = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
    unknown = vocabulary.symbols[vocabulary.unk]
    hf_tokenizer: HfTokenizer = package.Tokenizer(
        package.models.WordLevel(index, unk_token=unknown)
    )
    if source.lowercase:
        hf_tokenizer.normalizer = package.normalizers.Sequence(lowercase_normalizers())
    hf_tokenizer.pre_tokenizer = package.pre_tokenizers.Split(
        package.Regex(WHITE_SPACE), behavior="removed"
    )
    return hf_tokenizer


def check_same_ids(hf_tokenizer: HfTokenizer, source: Tokenizer) -> None:
    """Assert that every symbol keeps its id."""
    ids = {symbol: number for number, symbol in enumerate(source.vocabulary.symbols)}
    for symbol, number in ids.items():
        hf_id = hf_tokenizer.token_to_id(symbol)
        assert hf_id in (None, number), f"{symbol!r} has id {hf_id}, not {number}"
