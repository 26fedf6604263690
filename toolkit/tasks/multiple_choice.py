"""Multiple choice: RACE (Lai et al. 2017), SWAG (Zellers et al. 2018).

N questions of the batch   B their options   O maximum number of options
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.common.files import write_output
from toolkit.common.registry import register_task
from toolkit.config.declared import OF_MODEL, AtLeast, Rate
from toolkit.criteria import IGNORED, IMPOSSIBLE, MaskedClasses, Prediction
from toolkit.data.formats.qa.format import ChoiceSplit
from toolkit.data.formats.qa.multiple_choice import (
    FIELDS,
    ChoiceItem,
    encode_choice_questions,
    parse_choices,
)
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.sequence_pairs import (
    SPECIAL_OF_PAIR,
    describe_truncation,
    join_pairs,
    truncate_longest_first,
)
from toolkit.models.heads import Features, HeadKind, SentenceHead, build_pooler
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.examples import Examples, SplitSource, to_inputs
from toolkit.tasks.predictions import Predictor, Results, check_unique_ids
from toolkit.tasks.task import EncoderFactory, FeatureOptions, Task


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig(FeatureOptions, section="task"):
    """Options of the task multiple_choice."""

    head: HeadKind = field(default="pooled", metadata=OF_MODEL)
    """What an option's score is computed from. pooled: tanh of a linear map of the first token's
    last state, as in BERT; plain: that state itself; gelu: like pooled with
    gelu in place of tanh, as in ELECTRA of Transformers. TACO's state concatenates its streams."""
    head_dropout: Rate = field(default=0.1, metadata=OF_MODEL)
    """Dropout rate of the head's inputs."""
    tokens_per_sample: Annotated[int, AtLeast(8, or_zero=True)] = 0
    """Maximum number of tokens of a passage with one option, special tokens included; longer pairs
    are truncated token by token at the end of the longer text. 0 for 512, or the architecture's
    maximum if less."""


OBJECTIVE = "choice"
NO_OPTION = -1


class MultipleChoiceBatch(NamedTuple):
    """Options with their passages, and the correct ones."""

    inputs: Inputs
    selected: Int[Tensor, " B"]
    """Flat index of each row's first token into B x S."""
    option_rows: Int[Tensor, "N O"]
    """Row of each option; -1 if a question has fewer."""
    targets: Int[Tensor, " N"]
    """Correct option of each question; IGNORED if unknown."""
    ids: Int[Tensor, " N"]
    """Index of each question in the split; -1 for an idle rank."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class MultipleChoiceExamples(Examples[MultipleChoiceBatch]):
    """The questions of one split, each as long as its options together."""

    def __init__(self, c: MultipleChoiceConfig, source: SplitSource) -> None:
        self.split = split = ChoiceSplit(source.folder, source.name)
        source.check_labeled(bool((split.answers >= 0).all()), "questions without answers")
        counts = split.option_counts
        self._first_options = np.cumsum(counts) - counts
        passages = np.repeat(split.passage_lengths, counts)
        room = c.tokens_per_sample - SPECIAL_OF_PAIR
        self._passage, self._option = truncate_longest_first(passages, split.option_lengths, room)
        kept = self._passage + self._option
        longest = np.maximum.reduceat(kept, self._first_options) + SPECIAL_OF_PAIR
        self.lengths = longest * int(counts.max())  # an upper bound of the question's padded tokens
        self.longest = int(longest.max(initial=0))
        self._starts = np.cumsum(split.option_lengths) - split.option_lengths
        self._starts -= np.repeat(self._starts[self._first_options], counts)
        self.remark = describe_truncation(passages + split.option_lengths, kept)
        cut = passages + split.option_lengths > kept
        self.truncated = int(np.logical_or.reduceat(cut, self._first_options).sum())
        self.fingerprint = compute_fingerprint(
            split.folder.fingerprint, split.name, c.tokens_per_sample
        )

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> MultipleChoiceBatch:
        ids = ids % len(self)
        split, counts = self.split, self.split.option_counts[ids]
        options = ragged_arange(self._first_options[ids], counts)
        question_of = np.repeat(ids, counts)
        texts = join_pairs(
            split.passages.take(split.passage_items[question_of], self._passage[options]),
            split.options.take(question_of, self._option[options], self._starts[options]),
            split.vocabulary,
        )
        columns, first_rows = np.arange(counts.max()), np.cumsum(counts) - counts
        rows = np.where(columns < counts[:, None], first_rows[:, None] + columns, NO_OPTION)
        known = split.answers[ids] >= 0
        return MultipleChoiceBatch(
            inputs=to_inputs(texts),
            selected=torch.arange(len(options)) * texts.tokens.shape[1],
            option_rows=torch.from_numpy(rows),
            targets=torch.from_numpy(np.where(known, split.answers[ids], IGNORED)),
            ids=torch.from_numpy(ids),
            weights={OBJECTIVE: float(known.sum())},
            sentences=len(ids),
            tokens=int(texts.lengths.sum()),
        )


class OptionPrediction(NamedTuple):
    """The most probable option."""

    option: int
    """Its index, from 0."""
    text: str
    probability: float
    probabilities: list[float]
    """Probability of each option."""


class MultipleChoiceResults(Results[MultipleChoiceBatch, OptionPrediction]):
    """The options chosen for questions."""

    options: Sequence[list[str]] = ()
    """Those of each question, if they are raw items."""

    def __init__(self, examples: MultipleChoiceExamples) -> None:
        super().__init__(examples)
        self.split = examples.split
        self.predicted = self.make_array(np.int64)
        """Option chosen for each question."""
        self.probabilities = self.make_array(np.float64, int(self.split.option_counts.max()))
        """Probability of each option."""

    def update(self, batch: MultipleChoiceBatch, predictions: Mapping[str, Prediction]) -> None:
        scores, _ = predictions[OBJECTIVE]
        self.store(batch.ids, self.predicted, scores.argmax(-1))
        missing = self.probabilities.shape[1] - scores.shape[1]
        probabilities = F.pad(scores.double().softmax(-1), (0, missing))
        self.store(batch.ids, self.probabilities, probabilities)

    def metrics(self) -> dict[str, float]:
        """Accuracy of all questions, and of each group, such as middle and high, if several."""
        known, correct = self.split.answers >= 0, self.split.answers == self.predicted
        if not known.any():
            return {}
        values = {"accuracy": accuracy(known, correct)}
        groups = np.array([record["group"] for record in self.split.records])
        names = np.unique(groups).tolist()
        for name in names if len(names) > 1 else ():
            values[f"{name}_accuracy"] = accuracy(known & (groups == name), correct)
        return values

    def write(self, path: Path) -> None:
        """RACE in the format of its files, SWAG as row numbers and labels."""
        ids = [record["id"] for record in self.split.records]
        race = any(" " in name for name in ids)
        check_unique_ids(ids, "passage and number" if race else "row")
        answers = list(zip(ids, self.predicted.tolist(), strict=True))
        passages: dict[str, dict[str, str]] = {}  # {"high/12.txt": {"1": "A", "2": "C"}}
        for name, option in answers if race else ():
            passage, _, number = name.rpartition(" ")
            passages.setdefault(passage, {})[number] = chr(ord("A") + option)
        text = json.dumps(passages, ensure_ascii=False, indent=1) + "\n"
        if not race:
            text = "row,label\n" + "".join(f"{name},{option}\n" for name, option in answers)
        write_output(path, text)

    def records(self) -> list[OptionPrediction]:
        rows = self.options, self.predicted.tolist(), self.probabilities.tolist()
        return [
            OptionPrediction(best, options[best], row[best], row[: len(options)])
            for options, best, row in zip(*rows, strict=True)
        ]


def accuracy(chosen: BoolArray, correct: BoolArray) -> float:
    """The share of the chosen questions that are answered correctly; NaN without any."""
    return float(correct[chosen].mean()) if chosen.any() else float("nan")


class MultipleChoicePredictor(Predictor[ChoiceItem, OptionPrediction]):
    """Reads a passage and options, and if there is one a question or the start of each option."""

    fields = FIELDS
    columns = ("option", "probability", "text")
    parse = staticmethod(parse_choices)

    def start(self, items: Sequence[ChoiceItem]) -> MultipleChoiceResults:
        read = [(context, completed) for context, _, completed in items]
        results: MultipleChoiceResults = self.read(encode_choice_questions(self.tokenizer, read))
        results.options = [options for _, options, _ in items]
        return results


@register_task("multiple_choice", MultipleChoiceConfig())
class MultipleChoice(Task[MultipleChoiceConfig, MultipleChoiceExamples, MultipleChoiceBatch]):
    """-log p(option), p a softmax over w . x_o + b, x_o the [CLS] state of passage and option o.

    (Devlin et al. 2019, section 4.4.) x is pooled or plain, as in the task glue.
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    examples_class, results_class = MultipleChoiceExamples, MultipleChoiceResults
    predictor_class, default_tokens = MultipleChoicePredictor, 512

    def __init__(
        self, c: MultipleChoiceConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__(c)
        self.features = Features(encoder, layer_mixing=c.layer_mixing)
        self.pooler = build_pooler(c.head, encoder.width)
        self.head = SentenceHead(encoder.width, 1, c.head_dropout)

    def scores(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """The score of each option, by the state of its row's first token."""
        states = self.pooler(self.features(encoder, inputs, selected))
        return self.head(states)[:, 0]  # (B, 1) -> (B)

    def predict(self, encoder: EncoderModel, batch: MultipleChoiceBatch) -> dict[str, Prediction]:
        scores = self.scores(encoder, batch.inputs, batch.selected)
        options = scores[batch.option_rows.clamp(min=0)]  # (B) -> (N, O)
        options = options.masked_fill(batch.option_rows == NO_OPTION, IMPOSSIBLE)
        return {OBJECTIVE: MaskedClasses(options, batch.targets)}
