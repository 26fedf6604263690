"""Mutations of JSON texts: values of another type, out of range, missing or additional."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

DIGITS, DEEP = "9" * 5000, 100_000
RAW = {
    "an integer of 5,000 digits": DIGITS,
    "100,000 brackets": "[" * DEEP + "]" * DEEP,
    "600 objects": '{"a":' * 600 + "1" + "}" * 600,
    "1e400": "1e400",
    "NaN": "NaN",
}
"""Texts that are not written by json.dumps."""
VALUES: list[Any] = [None, True, 0, -1, 7, 2**62, 10**30, 1.5, -2.5e300, "", "x", "NaN", "\0"]
VALUES += ["\ud800", "../x", [], [1], ["x"], [[]], [None], {}, {"a": 1}, {"": {}}, {"a": ["x"]}]
MISSING, ADDED = "missing", "with another field"


class Mutation(NamedTuple):
    label: str
    text: str


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value, the whole first; of long lists, of the first three items."""
    yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value[:3])
    for key, item in items:
        yield from list_paths(item, (*path, key))


def replace(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at a path; MISSING and ADDED are changes of the place."""
    if not path:
        return {**value, "added": [{}]} if new is ADDED and isinstance(value, dict) else new
    value = copy.deepcopy(value)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    if new is MISSING:
        del parent[path[-1]]
    elif new is ADDED and isinstance(parent[path[-1]], dict):
        parent[path[-1]]["added"] = [{}]
    else:
        parent[path[-1]] = new
    return value


def mutate(text: str, count: int, seed: int, indent: int | None = None) -> list[Mutation]:
    """`count` mutations of a JSON text, each at a random place."""
    draw, content = random.Random(seed), json.loads(text)
    paths = list(list_paths(content))
    mutations = []
    while len(mutations) < count:
        path = draw.choice(paths)
        new = draw.choice([*RAW, *VALUES, MISSING, MISSING, MISSING, ADDED])
        is_raw = isinstance(new, str) and new in RAW
        changed = replace(content, path, "\x01raw\x01" if is_raw else new)
        out = json.dumps(changed, indent=indent)
        if is_raw:
            out = out.replace(json.dumps("\x01raw\x01"), RAW[new])
        where = ".".join(map(str, path)) or "(whole)"
        mutations.append(Mutation(f"{where}: {new!r}"[:80], out + "\n"))
    return mutations
