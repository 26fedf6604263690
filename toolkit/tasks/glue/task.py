"""The tasks of GLUE (Wang et al. 2019): a class or a value for a text or a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Classes, Prediction, Values
from toolkit.data.formats.classification.format import encode_raw_texts
from toolkit.data.formats.classification.split import ClassificationTokenizer
from toolkit.data.storage.memory_folder import MemoryFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.heads import SentenceHead, build_features, build_pooler
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.glue.examples import OBJECTIVE, GlueBatch, GlueConfig, GlueExamples
from toolkit.tasks.glue.predictions import GluePredictor, GlueResults
from toolkit.tasks.predictions import parse_items
from toolkit.tasks.task import EncoderFactory, Task


@register_task("glue", GlueConfig())
class Glue(Task[GlueConfig, GlueExamples, GlueBatch]):
    """-log p(class | text), p = softmax(W x + b), x the [CLS] state, pooled or plain.

    For a value y: (w . x + b - y)^2 (Devlin et al. 2019, section 4.1 and code).
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    examples_class, results_class = GlueExamples, GlueResults
    default_tokens = 128

    def __init__(self, c: GlueConfig, encoder: EncoderModel, make_encoder: EncoderFactory) -> None:
        super().__init__()
        self.config = c
        labels = make_encoder.sizes["labels"]
        if not labels:
            raise ToolkitError(
                "Task glue requires labeled data. Run toolkit-preprocess with --format glue or "
                "tsv, or in Python give build_model the labels."
            )
        self.is_regression = labels == 1
        self.features = build_features(encoder, layer_mixing=c.layer_mixing)
        self.pooler = build_pooler(c.head, encoder.width)
        self.head = SentenceHead(encoder.width, labels, c.head_dropout)

    def scores(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " N"]
    ) -> Float[Tensor, "N C"]:
        """Scores of the classes, or the value, by the state of each row's first token."""
        return self.head(self.pooler(self.features.select(encoder, inputs, selected)))

    def predict(self, encoder: EncoderModel, batch: GlueBatch) -> dict[str, Prediction]:
        scores = self.scores(encoder, batch.inputs, batch.selected)
        if self.is_regression:
            return {OBJECTIVE: Values(scores[:, 0], batch.targets)}
        return {OBJECTIVE: Classes(scores, batch.targets)}

    def encode_items(
        self,
        encoder: EncoderModel,
        tokenizer: Tokenizer,
        items: Sequence[object],
        labels: Sequence[object] | None,
    ) -> MemoryFolder:
        predictor = self.predictor(encoder, tokenizer)
        return encode_raw_texts(predictor.tokenizer, parse_items(predictor, items), labels)

    def predictor(self, encoder: EncoderModel, tokenizer: Tokenizer) -> GluePredictor:
        if not isinstance(tokenizer, ClassificationTokenizer):
            raise ToolkitError(
                "Task glue requires a tokenizer with labels. Give build_model labels, or load a "
                "checkpoint."
            )
        return GluePredictor(self.resolve_for(self.config, encoder), tokenizer)
