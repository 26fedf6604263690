"""Tokenizers as Transformers reads them, and larger vocabularies for continued pre-training.

New pieces merge old ones of frequent words, by byte-pair encoding (Sennrich et al. 2016) that
begins with the old pieces of the text. The row of a new piece, in every table, is the mean of the
rows of the old pieces that it merges. Rows of old pieces are unchanged, and so are the logits of
old ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer as HfTokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, write_json
from toolkit.conversion.files import ConvertedModel, build_on_meta
from toolkit.data.text_files import list_files, read_lines, whole_file
from toolkit.data.tokenizers.huggingface import (
    SPECIAL,
    TOKENIZER_FILE,
    HuggingFaceTokenizer,
    LibraryTokenizer,
    WordPieceTokenizer,
    lowercase_normalizers,
)
from toolkit.data.tokenizers.offsets import LINE_BREAKS
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, parse_model
from toolkit.data.tokenizers.tokenizer import TOKENIZER_CONFIG_FILE, Tokenizer
from toolkit.data.tokenizers.tokenizer_json import ROLE_SETTINGS, VOCABULARY_FILE
from toolkit.data.tokenizers.vocabulary import BYTE_PIECE, WORD_REST, WORD_START
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.models.interface import Sizes

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
    symbols, roles = source.vocabulary.symbols, source.vocabulary.roles
    backend = build_backend(source)
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
    starts = {"pair": "cls", "prompt": "sep"}
    ends: JsonObject = {} if template == "none" else {"eos_token": symbols[roles["sep"]]}
    if template in starts and roles["cls"] != roles["pad"]:
        ends["bos_token"] = symbols[roles[starts[template]]]
    settings: JsonObject = {
        **{ROLE_SETTINGS[role]: symbols[number] for role, number in roles.items()},
        **ends,
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
        backend = HfTokenizer.from_str(source.text)
        spaced, broken = (backend.encode(text).ids for text in ("a b", "a\nb"))
        if spaced != broken:  # a text is a line here
            steps = [backend.normalizer] if backend.normalizer else []
            to_line = normalizers.Replace(Regex(LINE_BREAKS), " ")
            backend.normalizer = normalizers.Sequence([to_line, *steps])
        return backend
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


LETTER = 0x20000
"""The letter that stands for id 0 where words are strings of ids."""
BONUS = 1e-3
"""What a merge adds to log probabilities, so that a unigram model prefers it to its parts."""
KINDS = "Unigram", "BPE", "WordPiece"
SENTENCEPIECE_KINDS = {1: "Unigram", 2: "BPE"}
LINE_BYTES = 500_000

Pair = tuple[str, str]
"""The two pieces that a new one merges, as strings of old ids."""


def extend_vocabulary(model: ConvertedModel, text: str, number: int) -> ConvertedModel:
    """The model with `number` more pieces of the words of a text, or of all that occur twice."""
    old = model.tokenizer
    if model_kind(old) not in KINDS:
        raise ToolkitError(
            f"--extend-vocabulary-from requires subwords of kind {', '.join(KINDS)} and a model "
            f"without labels or translations, but the tokenizer is of kind {model_kind(old)}."
        )
    merges = find_merges(old, text, number)
    if not merges:
        raise ToolkitError(
            f"--extend-vocabulary-from must have words of several pieces that occur twice, but "
            f"{text} has none. Give more text."
        )
    symbols = old.vocabulary.symbols
    ids = {symbol: [i] for i, symbol in enumerate(symbols)}
    pairs: dict[Pair, str] = {}
    for left, right in merges:
        if len(ids) == len(symbols) + number:
            break
        merged = [ord(letter) - LETTER for letter in left + right]
        pairs[left, right] = piece = join_pieces(old, [symbols[i] for i in merged])
        ids.setdefault(piece, merged)
    tokenizer = add_pieces(old, pairs, ids)
    sizes = Sizes({**model.sizes, **tokenizer.sizes})
    rows = [ids[symbol] for symbol in tokenizer.vocabulary.symbols]
    shapes = {name: it.shape for name, it in build_on_meta(model.run, sizes).state_dict().items()}
    tensors = {
        name: tensor if tensor.shape == shapes[name] else average_rows(tensor, rows)
        for name, tensor in model.tensors.items()
    }
    return replace(model, tokenizer=tokenizer, sizes=sizes, tensors=tensors)


def average_rows(table: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """The mean of these rows of a table, for each row of the result."""
    averages = table[[ids[0] for ids in rows]]
    for number, ids in enumerate(rows):
        if len(ids) > 1:
            averages[number] = table[list(ids)].double().mean(0).to(table.dtype)
    return averages


def find_merges(tokenizer: Tokenizer, text: str, number: int) -> list[Pair]:
    """The most frequent pairs of pieces within the words of a text, merged again and again."""
    backend = HfTokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    size = len(tokenizer.vocabulary)
    trainer = trainers.BpeTrainer(
        vocab_size=size + 2 * number,  # some give pieces that exist
        min_frequency=2,
        initial_alphabet=[chr(LETTER + i) for i in range(size)],
        show_progress=False,
    )
    files = list_files("--extend-vocabulary-from", text, recursive=True)
    chunks = chain.from_iterable(read_lines(whole_file(path), LINE_BYTES) for path in files)
    lines = chain.from_iterable(chunk.lines for chunk in chunks)
    backend.train_from_iterator(spell_words(tokenizer, lines), trainer)
    return [split_merge(it) for it in json.loads(backend.to_str())["model"]["merges"]]


def split_merge(merge: str | Sequence[str]) -> Pair:
    """The two pieces of a merge, as older and newer versions of the package tokenizers write it."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def model_kind(tokenizer: Tokenizer) -> str:
    """What the package tokenizers calls the model of the subwords; else the kind of tokenizer."""
    if isinstance(tokenizer, LibraryTokenizer):
        return type(tokenizer.backend.model).__name__
    if isinstance(tokenizer, SentencePieceTokenizer):
        number = parse_model(tokenizer.model).trainer_spec.model_type
        return SENTENCEPIECE_KINDS.get(number, tokenizer.kind)
    return tokenizer.kind


def spell_words(tokenizer: Tokenizer, lines: Iterator[str]) -> Iterator[str]:
    """Each line as words of letters that stand for ids; what must not be merged is a space.

    These are unknown and special tokens, and single bytes of characters that the tokenizer lacks.
    """
    vocabulary = tokenizer.vocabulary
    letters = [chr(LETTER + i) for i in range(len(vocabulary))]
    for i, symbol in enumerate(vocabulary.symbols):
        if i in vocabulary.roles.values() or BYTE_PIECE.fullmatch(symbol):
            letters[i] = " "
    for line in filter(None, lines):
        ids = np.array(tokenizer.encode(line), np.int64)
        starts = vocabulary.masked_words.starts(ids)
        if isinstance(tokenizer, LibraryTokenizer):
            words = tokenizer.backend.encode(line, add_special_tokens=False).word_ids
            starts[1:] |= np.array([a != b for a, b in pairwise(words)], bool)
        yield "".join(" " * bool(b) + letters[i] for i, b in zip(ids, starts, strict=True))


def join_pieces(tokenizer: Tokenizer, pieces: Sequence[str]) -> str:
    """The symbol of pieces in a row."""
    prefix = WORD_REST if tokenizer.vocabulary.mark == WORD_REST else ""
    return pieces[0] + "".join(piece.removeprefix(prefix) for piece in pieces[1:])


def add_pieces(old: Tokenizer, pairs: dict[Pair, str], ids: dict[str, list[int]]) -> Tokenizer:
    """The tokenizer with these pieces; `ids` are those of the old pieces that each consists of."""
    symbols, kind = old.vocabulary.symbols, model_kind(old)
    new = [*ids][len(symbols) :]
    if isinstance(old, WordPieceTokenizer):
        return WordPieceTokenizer.from_symbols([*symbols, *new], lowercase=old.lowercase)
    if isinstance(old, SentencePieceTokenizer):
        proto = parse_model(old.model)
        scores = [piece.score for piece in proto.pieces]
        least = min(scores)
        for rank, piece in enumerate(new, 1):
            score = least - rank if kind == "BPE" else merge_scores(scores, ids[piece])
            proto.pieces.add(piece=piece, score=score)
        options = {"lowercase": old.lowercase, "split_digit_commas": old.split_digit_commas}
        return SentencePieceTokenizer(proto.SerializeToString(), **options)
    assert isinstance(old, HuggingFaceTokenizer), "others were refused"
    description = json.loads(old.text)
    model = description["model"]
    if kind == "Unigram":
        scores = [score for _, score in model["vocab"]]
        unused = symbols[len(scores) :]  # added tokens, and rows without a symbol
        model["vocab"] += [[symbol, min(scores)] for symbol in unused]
        model["vocab"] += [[piece, merge_scores(scores, ids[piece])] for piece in new]
    else:
        model["vocab"] |= {piece: len(symbols) + i for i, piece in enumerate(new)}
    if kind == "BPE":
        spell = {chr(LETTER + i): symbol for i, symbol in enumerate(symbols)}
        spell |= {left + right: piece for (left, right), piece in pairs.items()}
        merges = [*map(split_merge, model["merges"])]
        model["merges"] = [*merges, *((spell[left], spell[right]) for left, right in pairs)]
    rows = len(symbols) + len(new)
    return HuggingFaceTokenizer(json.dumps(description), old.vocabulary.roles, rows=rows)


def merge_scores(scores: Sequence[float], ids: Sequence[int]) -> float:
    """The log probability of a merged piece: a little above that of its parts in a row."""
    return sum(scores[i] for i in ids) + BONUS * (len(ids) - 1)
