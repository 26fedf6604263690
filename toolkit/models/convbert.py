"""ConvBERT: self-attention mixed with span-based dynamic convolution (Jiang et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_arch
from toolkit.models.encoder import (
    Encoder,
    EncoderConfig,
    check_at_least_one,
    check_multiple,
    check_rate,
)
from toolkit.models.interface import Sizes
from toolkit.nn.attention import (
    Attention,
    Content,
    Convolution,
    KernelConvolution,
    LinearProjections,
    MixedValues,
    PlainConvolution,
    SoftmaxMap,
    SpanKernel,
    TokenKernel,
)

TYPES = ("span", "dynamic", "conventional", "none")


@dataclass(frozen=True, kw_only=True)
class ConvBertConfig(EncoderConfig):
    max_positions: int = 512
    """Rows of the position table: the longest sentence in tokens."""
    head_ratio: int = 2
    """Divide the heads by this; what is left attend, and as many beside them convolve. Fewer heads
    than this leave one."""
    kernel_size: int = 9
    """Taps of the convolutions, in tokens; odd."""
    groups: int = 1
    """Groups of channels that the feed-forward networks keep apart."""
    conv_type: str = "span"
    """How the heads beside self-attention convolve. span: kernels from each token's neighborhood;
    dynamic: from the token alone; conventional: a separable convolution; none: no such heads."""
    share_value: bool = False
    """Convolve the values of self-attention, as the paper's eq. 6 reads, and not others (span,
    dynamic)."""
    convolve_padding: bool = False
    """Let convolutions see padding, as the authors' code does; weights from it need that (all types
    but none)."""
    depthwise_bias: bool = False
    """Give depthwise convolutions a bias (Chang et al. 2021; span, conventional)."""
    renormalize_at_boundaries: bool = False
    """Normalize kernels over the taps in the sentence, not over all (Chang et al. 2021; span,
    dynamic)."""
    kernel_dropout: float = 0.0
    """Share of the kernels' weights zeroed, 0 to 1 (span, dynamic)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("head_ratio", "kernel_size", "groups"):
            check_at_least_one(name, getattr(self, name))
        check_rate("kernel_dropout", self.kernel_dropout)
        if self.heads > self.head_ratio:
            check_multiple("heads", self.heads, "head_ratio", self.head_ratio)
        check_multiple("width", self.width, "groups", self.groups)
        if self.feed_forward_width is not None:
            check_multiple("feed_forward_width", self.feed_forward_width, "groups", self.groups)
        if self.kernel_size % 2 == 0:
            raise ToolkitError(
                f"arch.kernel_size must be odd, as many taps to the left as to the right, but is "
                f"{self.kernel_size}. Take {self.kernel_size - 1} or {self.kernel_size + 1}."
            )
        if self.conv_type not in TYPES:
            raise ToolkitError(
                f"arch.conv_type must be one of {', '.join(TYPES)}, but is {self.conv_type!r}."
            )

    @property
    def attention_heads(self) -> int:
        """Those that attend; as many convolve."""
        return max(1, self.heads // self.head_ratio)

    @property
    def radius(self) -> int:
        return self.kernel_size // 2


@register_arch("convbert_tiny", ConvBertConfig(layers=2, width=128, heads=2, embedding_width=64))
@register_arch("convbert_small", ConvBertConfig(width=256, heads=4, embedding_width=128))
@register_arch(
    "convbert_small_chang",
    ConvBertConfig(
        width=256,
        heads=4,
        embedding_width=128,
        max_positions=128,
        depthwise_bias=True,
        renormalize_at_boundaries=True,
        kernel_dropout=0.1,
    ),
)
@register_arch(
    "convbert_medium_small", ConvBertConfig(width=384, heads=8, embedding_width=128, groups=2)
)
@register_arch("convbert", ConvBertConfig())
def convbert(c: ConvBertConfig, sizes: Sizes) -> Encoder:
    """Half of the heads attend to all tokens, the others convolve their neighbors (eq. 6)."""
    return Encoder(
        c,
        sizes,
        lambda: build_attention(c),
        absolute_positions=True,
        takes_positions=c.conv_type == "none",
        groups=c.groups,
    )


def build_attention(c: ConvBertConfig) -> Attention:
    heads, map_ = c.attention_heads, SoftmaxMap(Content(c.head_width), dropout=c.attention_dropout)
    inner, convolution = heads * c.head_width, build_convolution(c)
    if convolution is None:
        plain = LinearProjections(c.width, heads, c.head_width)
        return Attention(c.width, plain, map_, context_width=inner)
    own = c.conv_type in ("span", "dynamic") and not c.share_value
    return Attention(
        c.width,
        LinearProjections(c.width, heads, c.head_width, convolution_values=own),
        map_,
        MixedValues(convolution, sees_padding=c.convolve_padding),
        context_width=2 * inner,
    )


def build_convolution(c: ConvBertConfig) -> Convolution | None:
    """The rows of the paper's Table 2."""
    shape = c.attention_heads, c.head_width, c.radius
    if c.conv_type == "none":
        return None
    if c.conv_type == "conventional":
        return PlainConvolution(c.width, *shape, depthwise_bias=c.depthwise_bias)
    within, bias = c.renormalize_at_boundaries, c.depthwise_bias
    if c.conv_type == "dynamic":
        return KernelConvolution(TokenKernel(*shape, renormalize=within), c.kernel_dropout)
    kernel = SpanKernel(c.width, *shape, renormalize=within, depthwise_bias=bias)
    return KernelConvolution(kernel, c.kernel_dropout)
