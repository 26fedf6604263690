"""Columns of tags in CoNLL-U, and the notation of features."""

from __future__ import annotations

TAG_COLUMNS = {"upos": 3, "xpos": 4}
FEATURES = 5
MISSING_TAG = "_"


def tag_column(tag: str) -> int:
    """The column of upos or xpos; for the name of a feature, the column of features."""
    return TAG_COLUMNS.get(tag, FEATURES)


def get_feature(field: str, name: str) -> str:
    """The value of a feature in the column FEATS; `_` if it is absent."""
    return parse_features(field).get(name, MISSING_TAG)


def set_feature(field: str, name: str, value: str) -> str:
    """The column FEATS with one feature set, or removed for `_`, in alphabetical order."""
    features = parse_features(field)
    if features.get(name, MISSING_TAG) == value:
        return field
    features.pop(name, None)
    if value != MISSING_TAG:
        features[name] = value
    return "|".join(f"{n}={features[n]}" for n in sorted(features, key=str.lower)) or MISSING_TAG


def parse_features(field: str) -> dict[str, str]:
    """The features of the column FEATS."""
    return dict(part.split("=", 1) for part in field.split("|") if "=" in part)
