"""Predict the number of stars of a review, from the columns that the format `reviews` writes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor, arange, from_numpy, nn

from toolkit import register_task
from toolkit.config.declared import Options, PositiveInt
from toolkit.criteria import Classes
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.raw_items import InputField
from toolkit.data.samples.sequence_pairs import SPECIAL_OF_SINGLE, TokenColumn, join_pairs
from toolkit.data.storage.data_folder import MemoryFolder
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import Examples
from toolkit.tasks.predictions import Predictor, Results
from toolkit.tasks.task import Task, accuracy


@dataclass(frozen=True, kw_only=True)
class RatingConfig(Options, section="task"):
    tokens_per_sample: PositiveInt = 128
    """Maximum number of tokens per review, special tokens included; the rest is cut off."""
    max_stars: PositiveInt = 5
    """The best rating."""


class RatingBatch(NamedTuple):
    inputs: Inputs
    targets: Tensor
    ids: Tensor
    weights: dict[str, float]
    sentences: int
    tokens: int


class RatingExamples(Examples):
    """Reviews, each with its number of stars as the target."""

    def __init__(self, config, source):
        columns = source.folder.split(source.name).columns
        self.reviews, stars = TokenColumn(columns["tokens"]), columns["stars"].parts
        self.stars = np.concatenate([part.values for part in stars]).astype(np.int64)
        self.vocabulary = source.folder.tokenizer.vocabulary
        room = config.tokens_per_sample - SPECIAL_OF_SINGLE
        self.kept = np.minimum(self.reviews.lengths, room).astype(np.int64)
        self.lengths = self.kept + SPECIAL_OF_SINGLE
        data = source.folder.fingerprint
        self.fingerprint = compute_fingerprint(data, source.name, config.tokens_per_sample)

    def make_batch(self, ids, epoch):
        ids = ids % len(self)
        texts = join_pairs(self.reviews.take(ids, self.kept[ids]), None, self.vocabulary)
        inputs = Inputs(tokens=from_numpy(texts.tokens), padding=from_numpy(texts.padding))
        targets = from_numpy(self.stars[ids] - 1)
        weights = {"stars": float(len(ids))}
        tokens = int(texts.lengths.sum())
        return RatingBatch(inputs, targets, from_numpy(ids), weights, len(ids), tokens)


class RatingPrediction(NamedTuple):
    stars: int
    probability: float


class Ratings(Results):
    """The predicted ratings of reviews."""

    def __init__(self, examples):
        super().__init__(examples)
        self.stars, self.probability = self.make_array("i8"), self.make_array("f8")

    def update(self, batch, predictions):
        probability, best = predictions["stars"].logits.softmax(-1).max(-1)
        self.store(batch.ids, self.stars, best + 1)
        self.store(batch.ids, self.probability, probability)

    def records(self):
        rows = zip(self.stars.tolist(), self.probability.tolist(), strict=True)
        return [RatingPrediction(*row) for row in rows]


class RatingPredictor(Predictor):
    """Reads the text of a review."""

    fields, columns = (InputField(("text", "review")),), ("stars", "probability")

    def start(self, items):
        no_stars = np.ones(len(items), np.int64)
        columns = {"tokens": self.tokenizer.encode_lines(items), "stars": (no_stars, no_stars)}
        return self.read(MemoryFolder("reviews", self.tokenizer, columns))


@register_task("rating", RatingConfig())
class Rating(Task):
    """-log p(stars | review), p = softmax(W x + b), x the state of [CLS]."""

    examples_class, results_class = RatingExamples, Ratings
    predictor_class = RatingPredictor
    coefficients, reports_perplexity = {"stars": 1.0}, False

    def __init__(self, c, encoder, make_encoder):
        super().__init__()
        self.config = c
        self.head = nn.Linear(encoder.width, c.max_stars)

    def predict(self, encoder, batch):
        first = arange(len(batch.targets)) * batch.inputs.tokens.shape[1]  # index into B x S
        states = encoder.select_states(batch.inputs, first.to(batch.targets.device))
        return {"stars": Classes(self.head(states), batch.targets)}

    def metrics(self, predictions, batch):
        return {"accuracy": accuracy(predictions["stars"])}
