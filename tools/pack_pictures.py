"""Pack what toolkit-plot --json wrote, for tools/example_plots.py to draw from.

    python tools/pack_pictures.py FILE.jsonl... --into examples/composite_bert/pictures

Numbers keep five digits. Of the kernels per channel, which are large, only the last layer is kept.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    args = parser.parse_args()
    for file in args.files:
        events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        text = "".join(json.dumps(rounded(event)) + "\n" for event in without_channels(events))
        packed = args.into / f"{file.name}.xz"
        packed.write_bytes(lzma.compress(text.encode(), preset=9))
        print(packed)


def without_channels(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events without the kernels per channel of all layers but the last."""
    last = max((event.get("layer") or 0 for event in events), default=0)
    return [it for it in events if it.get("by") != "channel" or it["layer"] == last]


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    main()
