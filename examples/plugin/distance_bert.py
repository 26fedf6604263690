"""BERT with attention that decays with distance, instead of absolute positions."""

from dataclasses import dataclass

from torch import arange, nn

from toolkit import register_arch
from toolkit.models.encoder import Encoder, EncoderConfig
from toolkit.nn.attention import Attention, Content, Kernel, LinearProjections, Relative, SoftmaxMap


@dataclass(frozen=True, kw_only=True)
class DistanceBertConfig(EncoderConfig):
    radius: int = 32
    """Largest offset with a separate penalty, in tokens; larger offsets share the last one."""
    max_length = None  # without a table of positions sentences may be of any length


class DistanceKernel(Kernel):
    """-m_h |j - i|, m_h = 2^(-8h/H) at first and then learned (Press et al. 2022, section 3)."""

    def __init__(self, heads, radius):
        super().__init__()
        self.slopes = nn.Parameter(2.0 ** (-8 * arange(1, heads + 1) / heads))
        self.register_buffer("distances", arange(-radius, radius + 1).abs(), persistent=False)

    def forward(self, p):
        return -(self.slopes[:, None] * self.distances)[None, :, None]  # (1, H, 1, R)


@register_arch("distance_bert", DistanceBertConfig(layers=2, width=64, heads=2))
def distance_bert(c, sizes):
    """Scores are q_i . k_j / sqrt(K) - m_h |j - i|."""

    def attention():
        distance = Relative([DistanceKernel(c.heads, c.radius)])
        scores = SoftmaxMap(Content(c.head_width), [distance], c.attention_dropout)
        return Attention(c.width, LinearProjections(c.width, c.heads), scores)

    return Encoder(c, sizes, attention, takes_positions=True)
