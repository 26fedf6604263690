"""Models with heads in Transformers: masked and replaced tokens, texts, options, tags, answers.

B sentences   S tokens of a sentence   C characters of a word
N texts or questions   O options   L labels
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional as F
from transformers.modeling_outputs import (
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from toolkit.huggingface.model import ToolkitPreTrainedModel, flat_indices
from toolkit.models.interface import Inputs


class ToolkitForSequenceClassification(ToolkitPreTrainedModel):
    """The task glue: scores of the classes of a text or a pair, or its number."""

    tasks = ("glue",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        labels: Shaped[Tensor, "B ..."] | None = None,
    ) -> SequenceClassifierOutput:
        """`labels` are classes, numbers or rows of 0 and 1, as `config.problem_type` says."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        logits = self.head.scores(self.encoder, inputs, flat_indices(inputs, 1))
        loss = None if labels is None else self.compute_loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def compute_loss(
        self, logits: Float[Tensor, "B L"], labels: Shaped[Tensor, "B ..."]
    ) -> Float[Tensor, ""]:
        """That of the problem type, which the first labels decide if the configuration does not."""
        if self.config.problem_type is None:
            several = labels.is_floating_point()
            kind = "multi_label_classification" if several else "single_label_classification"
            self.config.problem_type = "regression" if self.config.num_labels == 1 else kind
        if self.config.problem_type == "regression":
            return F.mse_loss(logits.squeeze(), labels.squeeze().to(logits.dtype))
        if self.config.problem_type == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.cross_entropy(logits, labels)


class ToolkitForMultipleChoice(ToolkitPreTrainedModel):
    """The task multiple_choice: one score per option."""

    tasks = ("multiple_choice",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "N O S"],
        attention_mask: Shaped[Tensor, "N O S"] | None = None,
        token_type_ids: Int[Tensor, "N O S"] | None = None,
        position_ids: Int[Tensor, "N O S"] | None = None,
        labels: Int[Tensor, " N"] | None = None,
    ) -> MultipleChoiceModelOutput:
        """Every option is a row with its passage; `labels` are the correct options."""
        more = (attention_mask, token_type_ids, position_ids)
        rest = (None if each is None else each.flatten(0, 1) for each in more)
        inputs = self.to_inputs(input_ids.flatten(0, 1), *rest)  # (N, O, S) -> (NO, S)
        scores = self.head.scores(self.encoder, inputs, flat_indices(inputs, 1))
        logits = scores.view(input_ids.shape[:2])  # (NO) -> (N, O)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)


class ToolkitForMaskedLM(ToolkitPreTrainedModel):
    """Scores of all tokens at every position; of a model trained with rtd, by its generator."""

    tasks = ("mlm", "mpm", "rtd")

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
    ) -> MaskedLMOutput:
        """`labels` are the original tokens, -100 where no token is to be predicted."""
        encoder, head = self.head.token_head(self.encoder)
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        states = encoder(inputs).states
        logits = head(states.flatten(0, 1), encoder.token_embedding.weight)  # (BS, D) -> (BS, V)
        loss = None if labels is None else F.cross_entropy(logits, labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits.unflatten(0, input_ids.shape))


class ToolkitForPreTraining(ToolkitPreTrainedModel):
    """Scores of every token having been replaced (ELECTRA): the discriminator of rtd."""

    tasks = ("rtd",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
    ) -> TokenClassifierOutput:
        """`labels` are 1 for replaced tokens and 0 for others; padding does not count."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        states = self.encoder(inputs).states.flatten(0, 1)  # (B, S, D) -> (BS, D)
        scores = self.head.head(states).view(input_ids.shape)  # (BS) -> (B, S)
        loss = None
        if labels is not None:
            weights = torch.ones_like(scores) if attention_mask is None else attention_mask == 1
            targets, counted = labels.to(scores.dtype), weights.to(scores.dtype)
            losses = F.binary_cross_entropy_with_logits(scores, targets, counted, reduction="sum")
            loss = losses / counted.sum()
        return TokenClassifierOutput(loss=loss, logits=scores)


class ToolkitForTokenClassification(ToolkitPreTrainedModel):
    """The task pos_tagging: scores of the tags at every token, that of a word at its first.

    If the task averages over the subwords of a word, so do the scores of the word.
    """

    tasks = ("pos_tagging",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        char_ids: Int[Tensor, "B S C"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
    ) -> TokenClassifierOutput:
        """`labels` are -100 where a token has no tag, as in padding."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids, char_ids)
        selected = flat_indices(inputs, input_ids.shape[1])
        logits = self.head.scores(self.encoder, inputs, selected)
        loss = None if labels is None else F.cross_entropy(logits, labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits.unflatten(0, input_ids.shape))


class ToolkitForQuestionAnswering(ToolkitPreTrainedModel):
    """The task squad: scores of every token as the first and as the last one of the answer."""

    tasks = ("squad",)

    @can_return_tuple
    def forward(
        self,
        input_ids: Int[Tensor, "B S"],
        attention_mask: Shaped[Tensor, "B S"] | None = None,
        token_type_ids: Int[Tensor, "B S"] | None = None,
        position_ids: Int[Tensor, "B S"] | None = None,
        start_positions: Int[Tensor, " B"] | None = None,
        end_positions: Int[Tensor, " B"] | None = None,
    ) -> QuestionAnsweringModelOutput:
        """Positions outside the row do not count in the loss, the mean of both cross entropies."""
        inputs = self.to_inputs(input_ids, attention_mask, token_type_ids, position_ids)
        start, end = self.head.scores(self.encoder, inputs, self.find_allowed(inputs))
        loss = None
        if start_positions is not None and end_positions is not None:
            losses = [
                F.cross_entropy(
                    scores, truth.clamp(0, scores.shape[1]), ignore_index=scores.shape[1]
                )
                for scores, truth in ((start, start_positions), (end, end_positions))
            ]
            loss = sum(losses) / 2
        return QuestionAnsweringModelOutput(loss=loss, start_logits=start, end_logits=end)

    def find_allowed(self, inputs: Inputs) -> Bool[Tensor, "B S"]:
        """True at [CLS] and in the passage, which is between the first and the last [SEP]."""
        separators = inputs.tokens == self.config.sep_token_id
        passage = (separators.cumsum(1) > 0) & ~separators
        if inputs.padding is not None:
            passage &= ~inputs.padding
        first = torch.arange(passage.shape[1], device=passage.device) == 0
        return passage | first
