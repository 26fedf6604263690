"""Log the gradient norm of each layer."""

from dataclasses import dataclass

from toolkit import register_callback
from toolkit.optim.update import total_norm


@dataclass(frozen=True, kw_only=True)
class NormsConfig:
    interval: int = 100
    """Log every N updates."""


@register_callback("gradient_norms", NormsConfig())
class GradientNorms:
    """Logs the norm of each layer's gradient before clipping, and its maximum so far."""

    def __init__(self, c, context):
        self.c, self.context, self.modules, self.norms, self.maxima = c, context, {}, {}, {}
        for name, p in context.trainer.learner.named_parameters():
            module = ".".join(name.split(".")[: 3 if ".layers." in name else 2])
            self.modules.setdefault(module, []).append(p)

    def on_gradients(self, scale):
        for name, parameters in self.modules.items():
            norm = float(total_norm([p.grad for p in parameters if p.grad is not None]) / scale)
            self.norms[name] = norm
            self.maxima[f"{name}.max"] = max(norm, self.maxima.get(f"{name}.max", 0.0))

    def __call__(self, step):
        if step.update % self.c.interval == 0:
            self.context.log(**self.norms, **self.maxima)

    def state(self):
        return {"maxima": self.maxima}

    def restore(self, state):
        self.maxima = state["maxima"]
