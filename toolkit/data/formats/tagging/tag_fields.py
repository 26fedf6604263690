"""Where CoNLL-U keeps tags, and how a feature is written."""

from __future__ import annotations

TAG_COLUMNS = {"upos": 3, "xpos": 4}
FEATURES = 5
MISSING_TAG = "_"


def column_of(tag: str) -> int:
    """The column of upos, xpos, or of the features for the name of one."""
    return TAG_COLUMNS.get(tag, FEATURES)


def set_feature(field: str, name: str, value: str) -> str:
    """The column FEATS with one feature set, or removed for `_`; in the order of the names."""
    features = dict(part.split("=", 1) for part in field.split("|") if "=" in part)
    if features.get(name, MISSING_TAG) == value:
        return field
    features.pop(name, None)
    if value != MISSING_TAG:
        features[name] = value
    return "|".join(f"{n}={features[n]}" for n in sorted(features, key=str.lower)) or MISSING_TAG
