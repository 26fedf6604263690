"""Lower-casing without accents, as ALBERT (Lan et al. 2020) prepares uncased text."""

from __future__ import annotations

import unicodedata


def lower_without_accents(text: str) -> str:
    """NFKD, drop combining marks, lower (Chang et al. 2021, released code)."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text)
    return "".join(c for c in apart if not unicodedata.combining(c)).lower()
