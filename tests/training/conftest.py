"""A tiny learner and data in memory, for tests of the training loop."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from toolkit.criteria import Classes, Criterion
from toolkit.data.loading.loader import BatchLoader
from toolkit.distributed import World
from toolkit.models.interface import Encoded, EncoderModel, Inputs
from toolkit.optim.update import Precision
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import Ratio, Task
from toolkit.training.trainer import Trainer


class Rows(NamedTuple):
    inputs: Inputs
    targets: torch.Tensor
    weights: dict[str, float]
    sentences: int
    tokens: int


class Encoder(EncoderModel):
    width = 6

    def __init__(self, dropout=0.0):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.mix = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.dropout = nn.Dropout(dropout)

    @property
    def token_embedding(self):
        return self.words

    def forward(self, inputs, selected=None):
        return Encoded(self.norm(self.dropout(self.mix(self.words(inputs.tokens)).tanh())))


class Guess(Task):
    """Predict two classes of a sentence: what its first token is, and whether that is even."""

    coefficients: ClassVar = {"word": 1.0, "even": 0.5}

    def __init__(self):
        super().__init__()
        self.word, self.even = nn.Linear(6, 11), nn.Linear(6, 2)

    @classmethod
    def examples(cls, config, source):
        raise NotImplementedError

    def predict(self, encoder, batch):
        states, first = encoder(batch.inputs).states.mean(1), batch.targets
        odd_only = torch.where(first % 2 == 1, first % 2, -100)
        return {
            "word": Classes(self.word(states), first),
            "even": Classes(self.even(states), odd_only),
        }

    def metrics(self, predictions, batch):
        logits, targets = predictions["word"]
        right = logits.argmax(-1).eq(targets)
        return {"accuracy": Ratio(right.sum(), torch.tensor(float(len(targets))))}


class Summed(Criterion):
    def forward(self, predictions):
        return {
            name: nn.functional.cross_entropy(p.logits.float(), p.targets, reduction="sum")
            for name, p in predictions.items()
        }


def rows(tokens):
    tokens = torch.as_tensor(tokens)
    first = tokens[:, 0]
    weights = {"word": float(len(first)), "even": float((first % 2 == 1).sum())}
    return Rows(Inputs(tokens), first, weights, len(tokens), tokens.numel())


class Memory(BatchLoader):
    """A loader of a list of micro-batches, the same in every epoch."""

    def __init__(self, batches, *, rank=0, ranks=1):
        self.batches, self.rank, self.ranks = batches, rank, ranks
        self.closed = False

    def micro_batches(self, epoch):
        return len(self.batches)

    def words(self, epoch):
        return None

    def updates(self, epoch, *, start=0, update_freq=1):
        per_update = self.ranks * update_freq
        for begin in range(start, len(self.batches), per_update):
            group = self.batches[begin : begin + per_update]
            yield group[self.rank :: self.ranks]

    def evaluation(self):
        yield from self.batches[self.rank :: self.ranks]

    def evaluation_ids(self, number):
        return np.zeros(1, np.int64)  # which cannot be split

    def collate(self, ids):
        raise NotImplementedError

    def example_ids(self, epoch, micro_batch):
        return list(range(micro_batch * 10, micro_batch * 10 + self.batches[micro_batch].sentences))

    def split_micro_batch(self, epoch, micro_batch, count):
        tokens = self.batches[micro_batch].inputs.tokens
        return [rows(part) for part in tokens.tensor_split(count) if len(part)]

    def largest_batches(self, epoch):
        return [max(self.batches, key=lambda batch: batch.inputs.tokens.numel())]


@pytest.fixture
def batch():
    return rows


@pytest.fixture
def batches():
    random = torch.Generator().manual_seed(3)
    sizes = (3, 5, 2, 4, 3, 1, 4, 2)
    return [rows(torch.randint(1, 11, (n, 4), generator=random)) for n in sizes]


@pytest.fixture
def memory():
    return Memory


@pytest.fixture
def make_trainer():
    def make(*, dropout=0.0, lr=0.1, world=None, precision="fp32", optimizer=None, **options):
        torch.manual_seed(0)
        learner = Learner(Encoder(dropout), Guess())
        options = {"schedule": lambda n: 1.0, **options}
        return Trainer(
            learner,
            Summed(),
            (optimizer or (lambda p: torch.optim.SGD(p, lr=lr)))(learner.parameters()),
            world=world or World(),
            precision=Precision(precision, torch.device("cpu")),
            **options,
        )

    return make
