"""Replaced token detection (ELECTRA, Clark et al. 2020): two networks trained from scratch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import Optimizer

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.config.declared import LATER, OF_MODEL, Above, AtMost, PositiveFloat
from toolkit.criteria import (
    IGNORED,
    Binary,
    Classes,
    LazyPrediction,
    Prediction,
    ProjectedClasses,
    project,
)
from toolkit.criteria.cross_entropy import split_logits
from toolkit.data.samples.masking import SAMPLE
from toolkit.metrics.classification import score_histogram
from toolkit.models.heads import DetectionHead, TiedHead, build_token_head
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.nn.embeddings import copy_shared_parts
from toolkit.tasks.examples import SplitSource, TargetBatch
from toolkit.tasks.pretraining.mlm import (
    MaskedExamples,
    MaskingConfig,
    MaskingStrategy,
    TokenTask,
    predict_tokens,
)
from toolkit.tasks.task import EncoderFactory, Metric, Ranking, Ratio, accuracy


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenConfig(MaskingConfig):
    """Options of the task rtd."""

    masking: MaskingStrategy = "electra"
    """Which tokens the generator predicts. electra: drawn with replacement, as in ELECTRA; exact:
    an exact fraction; bernoulli: each independently; whole_word: all subwords of a word; frequency:
    an exact fraction, rare tokens more often; pmi: collocations and other words; span: runs of
    words."""
    generator_size: Annotated[float, Above(0), AtMost(1)] = field(default=0.25, metadata=OF_MODEL)
    """The generator's widths and heads as a fraction of the model's, at least one head. The paper
    uses 0.25 for small models and 0.3333 for base."""
    discriminator_weight: PositiveFloat = field(default=50.0, metadata=OF_MODEL)
    """Weight of the discriminator's loss; the generator's is 1."""
    embedding_sharing: Literal["all", "disentangled", "none"] = field(
        default="all", metadata={**OF_MODEL, **LATER}
    )
    """Embedding tables of both networks. all: the same, trained by both losses (ELECTRA);
    disentangled: the discriminator's are the generator's, without their gradient, plus a difference
    that its loss trains (GDES of DeBERTa-v3); none: separate ones. With all, they share a norm."""


class ReplacedTokensBatch(NamedTuple):
    """Sentences with masked tokens, and random numbers to sample replacements with."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the selected positions into B x S; padding rows repeat index 0."""
    targets: Int[Tensor, " N"]
    """Original token of each selected position; IGNORED (-100) in padding rows."""
    draws: Float[Tensor, " N"]
    """A uniform number in [0, 1) per row; a position selected twice has the same twice."""
    weights: dict[str, float]
    sentences: int
    tokens: int

    def with_tokens(self, new: Int[Tensor, " N"]) -> Int[Tensor, " BS"]:
        """The sentences with new tokens at the selected positions; padding rows do nothing."""
        tokens = self.inputs.tokens.flatten()
        kept = tokens.index_select(0, self.selected)
        return tokens.scatter(0, self.selected, torch.where(self.targets == IGNORED, kept, new))

    def labels(self, tokens: Int[Tensor, " BS"]) -> Int[Tensor, " BS"]:
        """1 where a token is not the original; IGNORED in padding and for an idle rank."""
        labels = (tokens != self.with_tokens(self.targets)).long()
        if not self.weights["rtd"]:
            return torch.full_like(labels, IGNORED)
        padding = self.inputs.padding
        return labels if padding is None else labels.masked_fill(padding.flatten(), IGNORED)


class ReplacedTokenExamples(MaskedExamples):
    """The sentences of one split; every epoch masks other tokens."""

    def __init__(self, config: MaskingConfig, source: SplitSource) -> None:
        vocabulary = source.folder.vocabulary
        roles = vocabulary.roles.items()
        if same := [role for role, i in roles if i == vocabulary.mask and role != "mask"]:
            raise ToolkitError(
                f"Task rtd requires a vocabulary with a separate [MASK] token, but that of "
                f"{source.folder.name} uses {vocabulary.symbols[vocabulary.mask]!r} also as "
                f"{same[0]}. Run toolkit-preprocess with a vocabulary that has one."
            )
        super().__init__(config, source)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> ReplacedTokensBatch:
        batch: TargetBatch = super().make_batch(ids, epoch)
        rows, positions = np.divmod(batch.selected.numpy(), batch.inputs.tokens.shape[1])
        draws = self.noise(ids, epoch).at(SAMPLE, rows, positions)
        return ReplacedTokensBatch(
            inputs=batch.inputs,
            selected=batch.selected,
            targets=batch.targets,
            draws=torch.from_numpy(draws.astype(np.float32)),
            weights={**batch.weights, "rtd": float(batch.tokens)},
            sentences=batch.sentences,
            tokens=batch.tokens,
        )


@register_task("rtd", ReplacedTokenConfig())
class ReplacedTokens(TokenTask[ReplacedTokenConfig, ReplacedTokenExamples, ReplacedTokensBatch]):
    """-log p_G(x_n | the rest) + w (-log p_D(y_t | x')), a mean over n and one over t (section 2).

    n runs over the selected positions, where x' has tokens sampled from p_G; y_t = [x'_t != x_t],
    t over all tokens. The encoder is the discriminator.
    """

    examples_class = ReplacedTokenExamples
    generator: Any
    """A small masked language model that shares the discriminator's embeddings."""

    def __init__(
        self, c: ReplacedTokenConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.coefficients = {"mlm": 1.0, "rtd": c.discriminator_weight}
        small = make_encoder.scale(c.generator_size)
        small.tie_embeddings_to(encoder)
        tables = copy_shared_parts(small) if c.embedding_sharing != "all" else []
        self.disentangled = tables if c.embedding_sharing == "disentangled" else []
        """Tables of the discriminator, each with that of the generator."""
        self.generator = nn.ModuleDict({"encoder": small, "head": build_token_head(small)})
        self.head = DetectionHead(encoder.width)

    def on_optimizer(self, optimizer: Optimizer) -> None:
        """Let each step update the differences of disentangled tables in place of the tables.

        E_D = sg(E_G) + Delta (He et al. 2021, equation 4), Delta 0 at first, is stored as the sum.
        The gradient of Delta is that of E_D. A step, which may also decay, updates E_D - E_G, and
        then the new E_G is added again. Frozen tables stay as they are.
        """
        pairs = [pair for pair in self.disentangled if pair[0].weight.requires_grad]

        @torch.no_grad()
        def add(factor: int, *_: object) -> None:
            for of_discriminator, of_generator in pairs:
                of_discriminator.weight.add_(of_generator.weight, alpha=factor)

        optimizer.register_step_pre_hook(partial(add, -1))
        optimizer.register_step_post_hook(partial(add, 1))

    def token_head(self, encoder: EncoderModel) -> tuple[EncoderModel, TiedHead]:
        return self.generator.encoder, self.generator.head

    def predict(
        self, encoder: EncoderModel, batch: ReplacedTokensBatch
    ) -> dict[str, LazyPrediction]:
        output = partial(project, targets=batch.targets)
        scores = predict_tokens(*self.token_head(encoder), batch.inputs, batch.selected, output)
        tokens = batch.with_tokens(sample_tokens(scores, batch.draws))
        inputs = batch.inputs._replace(tokens=tokens.view_as(batch.inputs.tokens))
        states = encoder(inputs).states.flatten(0, 1)  # (B, S, D) -> (BS, D)
        return {"mlm": scores, "rtd": Binary(self.head(states), batch.labels(tokens))}

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: ReplacedTokensBatch
    ) -> Mapping[str, Metric]:
        """Accuracy of the generator; accuracy, precision, recall and AUC of the discriminator; and
        the fraction of replaced tokens.
        """
        logits, labels = predictions["rtd"]
        real, positive = labels != IGNORED, labels == 1
        predicted = (logits > 0) & real
        tokens, replaced = real.sum().float(), positive.sum().float()
        hits = (predicted & positive).sum().float()
        return {
            "generator_accuracy": accuracy(predictions["mlm"]),
            "discriminator_accuracy": Ratio((real & (predicted == positive)).sum().float(), tokens),
            "precision": Ratio(hits, predicted.sum().float()),
            "recall": Ratio(hits, replaced),
            "replaced": Ratio(replaced, tokens),
            "auc": Ranking(*(score_histogram(logits, it) for it in (positive, real & ~positive))),
        }


CPU_ROWS = 64
"""Positions whose tokens are sampled together on a CPU, which keeps them in its cache."""
GPU_LOGITS = 1 << 27
"""Logits that a GPU samples from together: in fp32 half a GiB."""
BELOW_ONE = 1 - 2**-22
"""The largest fraction of a sum in fp32 that is surely less than the sum."""
TOKENS_PER_BLOCK = 256
"""Neighbors in the vocabulary among which a GPU chooses last."""


@torch.no_grad()
def sample_tokens(
    prediction: Classes | ProjectedClasses, draws: Float[Tensor, " N"]
) -> Int[Tensor, " N"]:
    """argmax_v (logits_v + g_v), g Gumbel noise: v with probability softmax(logits)_v.

    Computed by inverting the cumulative distribution, which needs one uniform number per position
    (Clark et al. 2020's code draws V). No gradient flows. Logits that are not finite yield an
    arbitrary token; the loss reveals them. Logits that the loss does not store are computed twice,
    chunk by chunk: here and for the loss, which is summed after the tokens have been read.
    """
    chunks: Iterable[Tensor]
    if isinstance(prediction, ProjectedClasses):  # classes of -inf may follow the last
        chunks, classes = split_logits(prediction), len(prediction.table)
    else:
        chunks, classes = [prediction.logits], prediction.logits.shape[-1]
    samples, start = [], 0
    on_cpu = draws.device.type == "cpu"
    for logits in chunks:
        rows_at_once = CPU_ROWS if on_cpu else max(1, GPU_LOGITS // logits.shape[-1])
        for rows in logits.split(rows_at_once):
            sampler = invert_sums_in_two_levels if rows.is_cuda else invert_sums
            samples.append(sampler(rows, draws[start : start + len(rows)]))
            start += len(rows)
    return torch.cat(samples).clamp(max=classes - 1)


def invert_sums(logits: Float[Tensor, "n V"], draws: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The first token where the sum of probabilities exceeds the draw's fraction of the total."""
    sums = logits.float().softmax(-1).cumsum(-1)
    thresholds = draws.clamp(max=BELOW_ONE)[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, thresholds, right=True)[:, 0].clamp(max=sums.shape[-1] - 1)


def invert_sums_in_two_levels(
    logits: Float[Tensor, "n V"], draws: Float[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """The same for CUDA, whose cumulative sums have no fixed order: a block of tokens, then one."""
    last = logits.shape[-1] - 1
    p = logits.softmax(-1, dtype=torch.float32)
    count = p.shape[-1] // TOKENS_PER_BLOCK
    whole, part = p.tensor_split([count * TOKENS_PER_BLOCK], dim=-1)  # of the last, or of none
    sums = whole.unflatten(-1, (count, TOKENS_PER_BLOCK)).sum(-1)
    blocks, rest = choose(torch.cat([sums, part.sum(-1, keepdim=True)], -1), draws)
    tokens = blocks[:, None] * TOKENS_PER_BLOCK + torch.arange(TOKENS_PER_BLOCK, device=p.device)
    masses = p.gather(-1, tokens.clamp(max=last)) * (tokens <= last)
    return (tokens[:, 0] + choose(masses, rest)[0]).clamp(max=last)


def choose(
    masses: Float[Tensor, "n M"], draws: Float[Tensor, " n"]
) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
    """m with probability masses_m / sum, and the draw's rest: how far it reaches into m, in [0, 1).

    The rest is uniform again. Cumulative sums are a product with a triangle of ones, in double
    precision.
    """
    masses, count = masses.double(), masses.shape[-1]
    sums = masses @ masses.new_ones(count, count).triu()
    thresholds = draws.double().clamp(max=BELOW_ONE)[:, None] * sums[:, -1:]
    index = torch.searchsorted(sums, thresholds, right=True).clamp(max=count - 1)
    rest = 1 - (sums.gather(-1, index) - thresholds) / masses.gather(-1, index)
    return index[:, 0], rest[:, 0].clamp(0, BELOW_ONE)
