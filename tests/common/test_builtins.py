import importlib

from toolkit.common.registry import REGISTRIES

ENTRIES = [(name, entry) for r in REGISTRIES.values() for name, entry in r.builtins.items()]


def test_every_built_in_is_told_in_one_short_line():
    for name, entry in ENTRIES:
        assert entry.summary and "\n" not in entry.summary and len(entry.summary) < 80, name
        assert not entry.summary.endswith("."), name


def test_every_built_in_is_in_a_module_that_is_there():
    for name, entry in ENTRIES:
        assert importlib.import_module(entry.module), name
