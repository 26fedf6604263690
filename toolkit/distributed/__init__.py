"""Distributed training: ranks, data parallelism and sharding."""

from toolkit.distributed.data_parallel import (
    GradientSync as GradientSync,
    no_sync as no_sync,
    wrap_data_parallel as wrap_data_parallel,
)
from toolkit.distributed.launch import launch as launch
from toolkit.distributed.world import World as World
