"""Classification and regression of texts and pairs, and multiple choice, in Transformers.

N texts or questions   O options   B rows   S tokens of a row   L labels
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn import functional as F
from transformers.modeling_outputs import MultipleChoiceModelOutput, SequenceClassifierOutput
from transformers.utils import can_return_tuple

from toolkit.huggingface.inputs import flat_indices
from toolkit.huggingface.model import ToolkitPreTrainedModel
from toolkit.tasks.glue.examples import OBJECTIVE, GlueBatch
from toolkit.tasks.multiple_choice import examples as multiple_choice
from toolkit.tasks.multiple_choice.examples import MultipleChoiceBatch


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
        selected = flat_indices(inputs, 1)
        rows, none = input_ids.shape[0], torch.zeros_like(selected)
        batch = GlueBatch(inputs, selected, none, none, {}, rows, input_ids.numel())
        scores = self.head.predict(self.encoder, batch)[OBJECTIVE][0]
        logits = scores.view(rows, self.config.num_labels)
        loss = None if labels is None else self.compute_loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def compute_loss(
        self, logits: Float[Tensor, "B L"], labels: Shaped[Tensor, "B ..."]
    ) -> Float[Tensor, ""]:
        """That of the problem type, which the first labels decide if the configuration does not."""
        if self.config.problem_type is None:
            self.config.problem_type = find_problem_type(self.config.num_labels, labels)
        if self.config.problem_type == "regression":
            return F.mse_loss(logits.squeeze(), labels.squeeze().to(logits.dtype))
        if self.config.problem_type == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.cross_entropy(logits, labels)


def find_problem_type(num_labels: int, labels: Shaped[Tensor, "B ..."]) -> str:
    """A number for one label, several classes at once for rows of numbers, else one class."""
    if num_labels == 1:
        return "regression"
    several = labels.is_floating_point()
    return "multi_label_classification" if several else "single_label_classification"


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
        selected, shape = flat_indices(inputs, 1), input_ids.shape[:2]
        none = torch.zeros_like(selected[: shape[0]])
        rows = torch.arange(selected.shape[0], device=selected.device).view(shape)
        batch = MultipleChoiceBatch(
            inputs, selected, rows, none, none, {}, shape[0], input_ids.numel()
        )
        logits = self.head.predict(self.encoder, batch)[multiple_choice.OBJECTIVE][0]
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)
