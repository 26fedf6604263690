"""Distributed training: ranks, data parallelism and sharding."""

from toolkit.distributed.data_parallel import GradientSync as GradientSync
from toolkit.distributed.data_parallel import no_sync as no_sync
from toolkit.distributed.data_parallel import wrap_data_parallel as wrap_data_parallel
from toolkit.distributed.launch import launch as launch
from toolkit.distributed.world import World as World
