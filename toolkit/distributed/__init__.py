from toolkit.distributed.data_parallel import without_exchange as without_exchange
from toolkit.distributed.data_parallel import wrap as wrap
from toolkit.distributed.gradient_sync import Exchange as Exchange
from toolkit.distributed.launch import launch as launch
from toolkit.distributed.world import World as World
