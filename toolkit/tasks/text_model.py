"""An encoder with a task that reads raw texts: predictions, vectors and filled masks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex, overload

import torch
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.criteria import LazyPrediction
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.batch import Batch, to_device
from toolkit.tasks.embed import Pooling, collate_texts, embed_rows, encode_texts, to_integers
from toolkit.tasks.predictor import TRUNCATED, parse_items, predict_batches
from toolkit.tasks.task import Task

log = logging.getLogger(__name__)


class TextModel(nn.Module):
    """An encoder and its task, with a tokenizer; the methods on texts run in evaluation mode."""

    def __init__(self, encoder: EncoderModel, task: Task[Any, Any, Any]) -> None:
        super().__init__()
        self.encoder, self.task = encoder, task
        self._tokenizer: Tokenizer | None = None

    @property
    def uses_packing(self) -> bool:
        """Whether batches on a GPU need `Inputs.packing`."""
        return self.encoder.uses_packing

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the training data; load_checkpoint sets it."""
        if self._tokenizer is None:
            raise ToolkitError(
                "The learner has no tokenizer. Load it with load_checkpoint, give build_model a "
                "tokenizer, or set learner.tokenizer."
            )
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer) -> None:
        rows, tokens = self.encoder.token_embedding.num_embeddings, len(tokenizer.vocabulary)
        if tokens > rows:
            raise ToolkitError(
                f"the tokenizer must have at most {rows:,} tokens, as many as the model's "
                f"embedding, but has {tokens:,}. Build the model with this tokenizer."
            )
        self._tokenizer = tokenizer

    def forward(self, batch: Batch) -> Mapping[str, LazyPrediction]:
        """Objective -> predictions and targets for a batch; call the learner itself instead."""
        return self.task.predict(self.encoder, batch)

    def encode(self, texts: Sequence[str]) -> Inputs:
        """The texts as one batch for the encoder, on its device: `learner.encoder(inputs)`.

        Special tokens are added. Texts are truncated to the length that the encoder reads.
        """
        device = self.encoder.token_embedding.weight.device
        return to_device(
            collate_texts(self._encode_rows(texts), self.tokenizer.vocabulary.pad), device
        )

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        layers: SupportsIndex | Sequence[SupportsIndex] = -1,
        pooling: Pooling = "mean",
        batch_size: int = 32,
    ) -> Tensor: ...
    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        layers: SupportsIndex | Sequence[SupportsIndex] = -1,
        pooling: None,
        batch_size: int = 32,
    ) -> list[Tensor]: ...
    def embed(
        self,
        texts: Sequence[str],
        *,
        layers: SupportsIndex | Sequence[SupportsIndex] = -1,
        pooling: Pooling | None = "mean",
        batch_size: int = 32,
    ) -> Tensor | list[Tensor]:
        """One vector per text, (N, D): the mean of the states of its tokens, [CLS] and [SEP] too.

        `pooling` is mean, max, first (the state of the first token) or None: then the result is a
        list with the states of the tokens of each text, (S, D). `layers` is the layer to read, 0
        for the embeddings and -1 for the last; several make vectors of (L, D). The encoder reads
        `batch_size` texts at a time. Vectors are on the CPU and do not depend on the other texts,
        up to rounding.
        """
        with self._evaluating() as tokenizer:
            vectors = embed_rows(
                self._encode_rows(texts),
                self.encoder,
                tokenizer.vocabulary.pad,
                layers=to_integers(layers),
                pooling=pooling,
                batch_size=batch_size,
            )
        return vectors if pooling is None else torch.stack(vectors)

    def _encode_rows(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text with the special tokens of the task."""
        special = self.task.special_tokens(self.tokenizer.vocabulary)
        return encode_texts(texts, self.tokenizer, self.encoder, special)

    @overload
    def fill_mask(
        self, sentences: str, top: int = 5, *, batch_size: int = 32
    ) -> list[MaskPrediction]: ...
    @overload
    def fill_mask(
        self, sentences: list[str], top: int = 5, *, batch_size: int = 32
    ) -> list[list[MaskPrediction]]: ...
    def fill_mask(
        self, sentences: str | list[str], top: int = 5, *, batch_size: int = 32
    ) -> list[MaskPrediction] | list[list[MaskPrediction]]:
        """The `top` most probable tokens for each [MASK]; one list per sentence.

        The encoder reads `batch_size` sentences at a time.
        """
        check_limits(batch_size=batch_size)
        texts = [sentences] if isinstance(sentences, str) else sentences
        with self._evaluating() as tokenizer:
            predictions = [
                prediction
                for start in range(0, len(texts), batch_size)
                for prediction in self.task.fill_mask(
                    self.encoder, tokenizer, texts[start : start + batch_size], top
                )
            ]
        return predictions[0] if isinstance(sentences, str) else predictions

    def order_words(self, sentence: str, top: int = 5) -> tuple[str, list[MaskPrediction]]:
        """The sentence with its words in braces, or all of them, in their most probable order.

        Also the `top` most probable positions of each token of these words.
        """
        with self._evaluating() as tokenizer:
            return self.task.order_words(self.encoder, tokenizer, sentence, top)

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of each word of each sentence: a list of words, or text with spaces between."""
        check_is_list("tag", sentences)
        with self._evaluating() as tokenizer:
            return self.task.tag(self.encoder, tokenizer, sentences)

    def predict(
        self,
        items: Sequence[object],
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
    ) -> list[Any]:
        """One prediction per item, such as a LabelPrediction: a NamedTuple of the task's.

        An item is a text; a tuple, such as a pair or a question with its passage; a list of words;
        or a mapping with the names that tables and JSON use. A batch has at most `batch_size` items
        and `max_tokens` tokens, padding included; without a limit it is that of evaluation: 32
        items. An item longer than `max_tokens` is a batch by itself.
        """
        check_limits(batch_size=batch_size, max_tokens=max_tokens)
        check_is_list("predict", items)
        with self._evaluating() as tokenizer:
            predictor = self.task.predictor(self.encoder, tokenizer)
            batches = predictor.start(parse_items(predictor, items))
            if batches.truncated:
                log.warning(f"{batches.truncated:,} of {len(items):,} items {TRUNCATED}.")
            return predict_batches(
                batches,
                self,
                next(self.parameters()).device,
                max_tokens=max_tokens,
                batch_size=batch_size,
                packs=self.uses_packing,
            )

    @contextmanager
    def _evaluating(self) -> Iterator[Tokenizer]:
        """In evaluation mode, with the tokenizer."""
        tokenizer, training = self.tokenizer, self.training
        self.eval()
        try:
            yield tokenizer
        finally:
            self.train(training)


def check_is_list(method: str, items: object) -> None:
    """Raise if a single item is given in place of a list of them."""
    if isinstance(items, str | Mapping):
        raise ToolkitError(f"learner.{method} takes a list of items. Put a single one in brackets.")


def check_limits(**limits: int | None) -> None:
    """Raise unless the limits of a batch are positive, or None for no limit."""
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise ToolkitError(f"{name} must be at least 1, but is {limit}. Raise it.")
