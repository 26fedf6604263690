"""Position terms, chosen by name and composed: the options, the terms and what excludes what."""

from toolkit.models.positions.build import build_attention as build_attention
from toolkit.models.positions.build import build_encoder as build_encoder
from toolkit.models.positions.build import build_projections as build_projections
from toolkit.models.positions.build import build_scores as build_scores
from toolkit.models.positions.options import PositionConfig as PositionConfig
from toolkit.models.positions.options import PositionName as PositionName
