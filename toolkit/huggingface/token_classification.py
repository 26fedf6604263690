"""Tagging and extractive question answering in Transformers.

B sentences   S tokens of a sentence   C characters of a word
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch.nn import functional as F
from transformers.modeling_outputs import QuestionAnsweringModelOutput, TokenClassifierOutput
from transformers.utils import can_return_tuple

from toolkit.huggingface.inputs import flat_indices
from toolkit.huggingface.model import ToolkitPreTrainedModel
from toolkit.models.interface import Inputs
from toolkit.tasks.squad.examples import END, START, SquadBatch
from toolkit.tasks.tagging.examples import OBJECTIVE, TaggingBatch


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
        none, rows = torch.zeros_like(selected), input_ids.shape[0]
        flags = none.bool()
        batch = TaggingBatch(
            inputs, selected, None, none, none, flags, flags, flags, {}, rows, selected.shape[0]
        )
        logits = self.head.predict(self.encoder, batch)[OBJECTIVE][0]
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
        none, rows = torch.zeros_like(input_ids[:, 0]), input_ids.shape[0]
        allowed = self.find_allowed(inputs)
        batch = SquadBatch(inputs, none, none, allowed, none, none, {}, rows, input_ids.numel())
        predictions = self.head.predict(self.encoder, batch)
        start, end = predictions[START][0], predictions[END][0]
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
