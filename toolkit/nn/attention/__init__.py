"""Attention: projections, score terms, kernels, maps and values to compose."""

from toolkit.nn.attention.attention import (
    Attention as Attention,
    AttentionValues as AttentionValues,
    CrossAttention as CrossAttention,
    DepthwiseValues as DepthwiseValues,
    KernelConvolution as KernelConvolution,
    MixedValues as MixedValues,
    PlainConvolution as PlainConvolution,
)
from toolkit.nn.attention.composite import (
    FixedKernel as FixedKernel,
    KeyKernel as KeyKernel,
    QueryKernel as QueryKernel,
)
from toolkit.nn.attention.disentangled import (
    ContentToPosition as ContentToPosition,
    DisentangledProjections as DisentangledProjections,
    PositionToContent as PositionToContent,
)
from toolkit.nn.attention.inputs import (
    AttentionInputs as AttentionInputs,
    CrossAttentionSource as CrossAttentionSource,
    Offsets as Offsets,
    SequenceContext as SequenceContext,
)
from toolkit.nn.attention.kernels import (
    Kernel as Kernel,
    NormalizedKernel as NormalizedKernel,
    OffsetValues as OffsetValues,
    SharedKernel as SharedKernel,
    SharedKeyKernel as SharedKeyKernel,
    SharedQueryKernel as SharedQueryKernel,
    SpanKernel as SpanKernel,
    TokenKernel as TokenKernel,
)
from toolkit.nn.attention.maps import (
    AttentionMap as AttentionMap,
    KernelMap as KernelMap,
    SoftmaxMap as SoftmaxMap,
)
from toolkit.nn.attention.offset_terms import (
    BucketBias as BucketBias,
    ContentBias as ContentBias,
    LinearBias as LinearBias,
    Rotary as Rotary,
    SinusoidalKernel as SinusoidalKernel,
)
from toolkit.nn.attention.position import (
    OffsetVectors as OffsetVectors,
    Position as Position,
    PositionEmbedding as PositionEmbedding,
    PositionOptions as PositionOptions,
    Shape as Shape,
    TableShape as TableShape,
)
from toolkit.nn.attention.projections import (
    ConvolvedProjections as ConvolvedProjections,
    GatedProjection as GatedProjection,
    LinearProjections as LinearProjections,
    StreamProjections as StreamProjections,
    TemperedProjections as TemperedProjections,
)
from toolkit.nn.attention.smoothing import (
    AbsolutePositionBias as AbsolutePositionBias,
    PairConvolution as PairConvolution,
    QueryConvolution as QueryConvolution,
    ReversedKernel as ReversedKernel,
    SmoothedMap as SmoothedMap,
)
from toolkit.nn.attention.terms import (
    Content as Content,
    ContentChange as ContentChange,
    Relative as Relative,
    RelativeToKey as RelativeToKey,
    ScoreTerm as ScoreTerm,
)
from toolkit.nn.attention.two_stream_maps import (
    MixedMaps as MixedMaps,
    SummedMaps as SummedMaps,
    TwoStreamMaps as TwoStreamMaps,
)
