from toolkit.distributed.exchange import Exchange as Exchange
from toolkit.distributed.launch import launch as launch
from toolkit.distributed.world import World as World
from toolkit.distributed.wrap import without_exchange as without_exchange
from toolkit.distributed.wrap import wrap as wrap
