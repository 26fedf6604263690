"""Options that the task multiple_choice selects for raw questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Prediction
from toolkit.data.formats.qa.encode_questions import encode_choice_questions
from toolkit.data.formats.qa.multiple_choice import fill_blank
from toolkit.data.storage.memory_folder import SPLIT
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import to_single_line
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.multiple_choice.config import MultipleChoiceConfig
from toolkit.tasks.multiple_choice.examples import (
    OBJECTIVE,
    MultipleChoiceBatch,
    MultipleChoiceExamples,
)
from toolkit.tasks.predictor import ItemBatches, Predictor
from toolkit.tasks.raw_items import InputField, Values


class ChoiceItem(NamedTuple):
    """A passage with options."""

    context: str
    options: list[str]
    completed: tuple[str, ...]
    """The texts that the model reads after the passage: the question with each option."""


class OptionPrediction(NamedTuple):
    """The most probable option."""

    option: int
    """Its index, from 0."""
    text: str
    probability: float
    probabilities: list[float]
    """Probability of each option."""

    def to_row(self) -> tuple[str, ...]:
        """Index, probability and text of the option."""
        return str(self.option), f"{self.probability:.4f}", to_single_line(self.text)


class MultipleChoicePredictor(Predictor[ChoiceItem, OptionPrediction]):
    """Reads a passage and options, and if there is one a question or the start of each option."""

    fields = (
        InputField(("context", "article", "passage", "sent1")),
        InputField(("question",), required=False),
        InputField(("start", "sent2"), required=False),
        InputField(("options", "endings"), "texts"),
    )
    columns = ("option", "probability", "text")

    def __init__(self, config: MultipleChoiceConfig, tokenizer: Tokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer

    def parse(self, values: Values) -> ChoiceItem:
        options = [option.strip() for option in values["options"]]
        if len(options) < 2 or not all(options):
            raise ToolkitError(
                f"an item must have two options or more, none of them blank, but has {options}."
            )
        question, start = values.get("question", ""), values.get("start", "").strip()
        completed = tuple(f"{start} {fill_blank(question, it)}".strip() for it in options)
        return ChoiceItem(values["context"].strip(), options, completed)

    def start(self, items: Sequence[ChoiceItem]) -> MultipleChoiceItems:
        return MultipleChoiceItems(self.config, self.tokenizer, items)


class MultipleChoiceItems(ItemBatches[MultipleChoiceBatch, OptionPrediction]):
    """Raw questions as examples, and their predictions."""

    def __init__(
        self, config: MultipleChoiceConfig, tokenizer: Tokenizer, items: Sequence[ChoiceItem]
    ) -> None:
        self._items = items
        read = [(item.context, item.completed) for item in items]
        folder = encode_choice_questions(tokenizer, read)
        self.examples = MultipleChoiceExamples(config, SplitSource(folder, SPLIT))
        self.truncated = self.examples.truncated
        self._predicted: dict[int, OptionPrediction] = {}

    def update(self, batch: MultipleChoiceBatch, predictions: Mapping[str, Prediction]) -> None:
        scores, _ = predictions[OBJECTIVE]
        rows = scores.argmax(-1).tolist(), scores.double().softmax(-1).tolist()
        for number, best, row in zip(batch.question_ids.tolist(), *rows, strict=True):
            options = self._items[number].options
            probabilities = row[: len(options)]
            prediction = OptionPrediction(best, options[best], row[best], probabilities)
            self._predicted[number] = prediction

    def results(self) -> list[OptionPrediction]:
        return [self._predicted[number] for number in range(len(self._items))]
