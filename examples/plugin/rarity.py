"""Predict how common the masked word is: the binary logarithm of its rank in the vocabulary."""

from torch import nn

from toolkit import register_task
from toolkit.criteria import IGNORED, Classes
from toolkit.tasks.pretraining.masked_examples import MaskedExamples, MaskingConfig
from toolkit.tasks.task import Ratio, Task


class RarityExamples(MaskedExamples):
    """Sentences with masked tokens; the target is floor(log2(id)), as vocabularies are sorted."""

    def collate(self, ids, epoch):
        batch = super().collate(ids, epoch)
        classes = batch.targets.clamp(min=1).float().log2().long()
        targets = classes.where(batch.targets != IGNORED, IGNORED)
        return batch._replace(targets=targets, weights={"rarity": batch.weights["mlm"]})


@register_task("rarity", MaskingConfig())
class Rarity(Task):
    """-log p(floor(log2(id of x_n)) | the rest), n over the masked tokens."""

    criterion, coefficients = "focal", {"rarity": 1.0}

    def __init__(self, c, encoder, sizes, make_encoder):
        super().__init__()
        self.head = nn.Linear(encoder.width, sizes.tokens.bit_length())

    examples = RarityExamples

    def predict(self, encoder, batch):
        states = encoder(batch.inputs).states.flatten(0, 1)  # (B, S, D) -> (BS, D)
        return {"rarity": Classes(self.head(states[batch.places]), batch.targets)}

    def metrics(self, predictions):
        logits, targets = predictions["rarity"]
        return {"accuracy": Ratio((logits.argmax(-1) == targets).sum(), (targets != IGNORED).sum())}
