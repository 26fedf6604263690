"""Tokenizers of the toolkit in Transformers, for those that no tokenizer.json can express."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizer

from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.raw_items import split_at_spaces
from toolkit.data.tokenizers.tokenizer import TOOLKIT_TOKENIZER_FILE, Tokenizer, unpack_tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.huggingface.config import MODULE, STUB

AUTO_MAP = {"AutoTokenizer": [f"{MODULE}.ToolkitTokenizer", None]}
CHAR_IDS = "char_ids"
PLACEHOLDER = -1


class ToolkitTokenizer(PreTrainedTokenizer):
    """A tokenizer of the toolkit, read from toolkit_tokenizer.json.

    `template` says which special tokens surround texts (special_tokens_of). A tokenizer of whole
    words adds the characters of each, as `char_ids`. `text_target` is tokenized as the target of a
    translation, and ids are decoded as one.
    """

    vocab_files_names = {"toolkit_file": TOOLKIT_TOKENIZER_FILE}  # noqa: RUF012
    _auto_map = AUTO_MAP

    def __init__(self, toolkit_file: str, template: str = "pair", **kwargs: Any) -> None:
        self.content, self.template = Path(toolkit_file).read_bytes(), template
        self.source = unpack_tokenizer(self.content)
        self._switch_to_input_mode()
        super().__init__(**{"template": template, **special_tokens(self.source), **kwargs})

    def _switch_to_input_mode(self) -> None:
        self._read_with(self.source)

    def _switch_to_target_mode(self) -> None:
        self._read_with(self.source.target)

    def _read_with(self, tokenizer: Tokenizer) -> None:
        self.reader = tokenizer
        self._ids = {symbol: i for i, symbol in enumerate(tokenizer.vocabulary.symbols)}

    @property
    def vocab_size(self) -> int:
        """Number of tokens of the vocabulary."""
        return len(self.source.vocabulary)

    def get_vocab(self) -> dict[str, int]:
        """Token -> id."""
        return dict(self._ids)

    def tokenize(self, text: str, **kwargs: Any) -> list[str]:
        """As in the toolkit, which reads text right after a mask as part of a word."""
        parts_of_text = kwargs.get("split_special_tokens", self.split_special_tokens)
        if parts_of_text or self.added_tokens_encoder.keys() - self._ids.keys():
            return super().tokenize(text, **kwargs)
        return [self.reader.vocabulary.symbols[i] for i in self.reader.encode_parsing_special(text)]

    def _tokenize(self, text: str, **kwargs: Any) -> list[str]:
        return [self.reader.vocabulary.symbols[i] for i in self.reader.encode(text)]

    def _convert_token_to_id(self, token: str) -> int:
        return self._ids.get(token, self.reader.vocabulary.unk)

    def _convert_id_to_token(self, index: int) -> str:
        return self.source.target.vocabulary.symbols[index]

    def _decode(
        self, token_ids: int | Sequence[int], skip_special_tokens: bool = False, **kwargs: Any
    ) -> str:
        ids = [token_ids] if isinstance(token_ids, int) else token_ids
        special = self.source.target.vocabulary.special if skip_special_tokens else ()
        return self.source.target.decode([i for i in ids if i not in special])

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """The ids of one text or two with their special tokens."""
        before, after = special_tokens_of(self.template, self.reader.vocabulary)
        second = [] if token_ids_1 is None else [*token_ids_1, *after]
        return [*before, *token_ids_0, *after, *second]

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 for special tokens, 0 for those of texts."""
        if already_has_special_tokens:
            return [int(i in self.reader.vocabulary.special) for i in token_ids_0]
        first = [PLACEHOLDER] * len(token_ids_0)
        second = None if token_ids_1 is None else [PLACEHOLDER] * len(token_ids_1)
        return [int(i != PLACEHOLDER) for i in self.build_inputs_with_special_tokens(first, second)]

    def _encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> BatchEncoding:
        """As in Transformers; whole words get their characters."""
        source = self.source
        is_words = isinstance(text, list) and bool(options.get("is_split_into_words"))
        is_single = isinstance(text, str) or (is_words and isinstance(next(iter(text), ""), str))
        if not (isinstance(source, TaggingTokenizer) and source.has_words and is_single):
            return super()._encode_plus(text, text_pair, **options)
        words = split_at_spaces(text) if isinstance(text, str) else text
        tensors, padding = options.pop("return_tensors", None), options.pop("padding_strategy")
        options["is_split_into_words"] = False
        encoded = super()._encode_plus(source.encode_types(words)[0].tolist(), **options)
        encoded[CHAR_IDS] = source.char_ids(words)[: len(encoded["input_ids"])].tolist()
        lengths = {"max_length": options.get("max_length")}
        padded = self.pad(encoded, padding=padding.value, **lengths)
        return BatchEncoding(padded, tensor_type=tensors, prepend_batch_axis=tensors is not None)

    def _pad(self, encoded_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """As in Transformers, the characters of words included."""
        padded = super()._pad(encoded_inputs, *args, **kwargs)
        if CHAR_IDS in padded:
            rows = padded[CHAR_IDS]
            missing = len(padded[self.model_input_names[0]]) - len(rows)
            padded[CHAR_IDS] = [*rows, *([[0] * len(rows[0])] * missing)]
        return padded

    def save_vocabulary(
        self, save_directory: str, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Write the tokenizer's files; returns their paths."""
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        path = Path(save_directory, prefix + TOOLKIT_TOKENIZER_FILE)
        path.write_bytes(self.content)
        module = path.with_name(f"{MODULE}.py")
        if not module.exists():  # a model's may also load a plugin
            module.write_text(STUB, "utf-8")
        return str(path), str(module)

    @classmethod
    def register_for_auto_class(cls, auto_class: object = "AutoTokenizer") -> None:
        """Nothing: save_pretrained must not copy this file next to the tokenizer."""


def special_tokens_of(template: str, vocabulary: Vocabulary) -> tuple[list[int], list[int]]:
    """Ids before the first text and after every text."""
    begin, end = [vocabulary.cls], [vocabulary.sep]
    return {"pair": (begin, end), "source": ([], end), "prompt": (end, []), "none": ([], [])}[
        template
    ]


def special_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """Symbol of each role that has its own; [SEP] is also the end of a text."""
    symbols, roles = tokenizer.vocabulary.symbols, tokenizer.vocabulary.roles
    distinct = {number: role for role, number in reversed(roles.items())}
    found = {f"{role}_token": symbols[number] for number, role in distinct.items()}
    return {**found, **({"eos_token": found["sep_token"]} if "sep_token" in found else {})}
