"""Lower case without accents, as ALBERT (Lan et al. 2020) prepares uncased text."""

from __future__ import annotations

import unicodedata


def lower_without_accents(text: str) -> str:
    """NFKD without combining marks, in lower case (Chang et al. 2021, released code)."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).lower()
