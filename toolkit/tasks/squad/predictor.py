"""Answers of the task squad to raw questions about passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from toolkit.criteria import Prediction
from toolkit.data.formats.qa.encode_questions import encode_span_questions
from toolkit.data.storage.memory_folder import SPLIT
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import to_single_line
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.predictor import ItemBatches, Predictor
from toolkit.tasks.raw_items import InputField, Values
from toolkit.tasks.squad.config import SquadConfig
from toolkit.tasks.squad.examples import SquadBatch, SquadExamples
from toolkit.tasks.squad.predictions import QuestionPrediction, SquadCollector

QuestionAndContext = tuple[str, str]


class AnswerPrediction(NamedTuple):
    """The best answer to a question."""

    answer: str
    """Empty if the passage has no token, or by a model of SQuAD 2.0 does not answer it."""
    probability: float
    """Of the best answer among the n best."""
    start: int
    """Its first character in the passage; -1 without an answer."""
    end: int
    """The character after its last."""
    no_answer_odds: float
    """Score of "no answer" minus that of the best answer."""

    def to_row(self) -> tuple[str, ...]:
        """Answer and probability as text."""
        return to_single_line(self.answer), f"{self.probability:.4f}"


class SquadPredictor(Predictor[QuestionAndContext, AnswerPrediction]):
    """Reads a question and a passage.

    A model whose threshold for unanswerable questions was tuned may leave a question unanswered.
    """

    fields = (InputField(("question",)), InputField(("context", "passage", "article")))
    columns = ("answer", "probability")

    def __init__(self, config: SquadConfig, tokenizer: Tokenizer, null_threshold: Tensor) -> None:
        self.config, self.tokenizer, self.null_threshold = config, tokenizer, null_threshold

    def parse(self, values: Values) -> QuestionAndContext:
        return values["question"], values["context"]

    def start(self, items: Sequence[QuestionAndContext]) -> SquadItems:
        folder = encode_span_questions(self.tokenizer, items)
        examples = SquadExamples(self.config, SplitSource(folder, SPLIT))
        return SquadItems(examples, self.null_threshold)


class SquadItems(ItemBatches[SquadBatch, AnswerPrediction]):
    """Raw questions as examples, and their answers."""

    def __init__(self, examples: SquadExamples, null_threshold: Tensor) -> None:
        self.examples, self.truncated = examples, examples.truncated
        self._collector = SquadCollector(examples, null_threshold)
        self._threshold = float(null_threshold) or None  # 0 before it is tuned

    def update(self, batch: SquadBatch, predictions: Mapping[str, Prediction]) -> None:
        self._collector.update(batch, predictions)

    def results(self) -> list[AnswerPrediction]:
        return [self._to_result(prediction) for prediction in self._collector.predicted]

    def _to_result(self, prediction: QuestionPrediction) -> AnswerPrediction:
        odds = prediction.null_odds
        probability = next(iter(prediction.probabilities), 0.0)
        if not prediction.text(self._threshold):
            return AnswerPrediction("", probability, -1, -1, odds)
        start, end = prediction.spans[0]
        return AnswerPrediction(prediction.texts[0], probability, start, end, odds)
