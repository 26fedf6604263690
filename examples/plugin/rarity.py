"""Predict how common the masked word is: the binary logarithm of its rank in the vocabulary."""

from torch import nn

from toolkit import register_task
from toolkit.criteria import IGNORED, Classes
from toolkit.tasks.pretraining.mlm import MaskedExamples, MaskingConfig
from toolkit.tasks.task import Task, accuracy


class RarityExamples(MaskedExamples):
    """Sentences with masked tokens; the target is floor(log2(id)), as vocabularies are sorted."""

    def make_batch(self, ids, epoch):
        batch = super().make_batch(ids, epoch)
        classes = batch.targets.clamp(min=1).float().log2().long()
        targets = classes.where(batch.targets != IGNORED, IGNORED)
        return batch._replace(targets=targets, weights={"rarity": batch.weights["mlm"]})


@register_task("rarity", MaskingConfig())
class Rarity(Task):
    """-log p(floor(log2(id of x_n)) | the rest), n over the masked tokens."""

    examples_class = RarityExamples
    criterion, coefficients = "focal", {"rarity": 1.0}

    def __init__(self, c, encoder, make_encoder):
        super().__init__()
        self.head = nn.Linear(encoder.width, make_encoder.sizes["tokens"].bit_length())

    def predict(self, encoder, batch):
        states = encoder(batch.inputs).states.flatten(0, 1)  # (B, S, D) -> (BS, D)
        return {"rarity": Classes(self.head(states[batch.selected]), batch.targets)}

    def metrics(self, predictions, batch):
        return {"accuracy": accuracy(predictions["rarity"])}
