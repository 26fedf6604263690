from toolkit.common.registry import POSITIONS, REGISTRIES

KINDS = {**REGISTRIES, "position": POSITIONS}
ENTRIES = [(name, entry) for r in KINDS.values() for name, entry in r.builtins.items()]


def test_summaries_of_built_ins_are_one_short_line():
    for name, entry in ENTRIES:
        assert entry.summary and "\n" not in entry.summary and len(entry.summary) < 80, name
        assert not entry.summary.endswith("."), name
