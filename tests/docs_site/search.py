"""The search of the built site, as Material for MkDocs does it in the browser with lunr.js."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from lunr.stop_word_filter import WORDS as STOP_WORDS

TAG = re.compile(r"<[^>]*>")
K1 = 1.2
"""Saturation of BM25; its normalization by length is off in Material."""


class SiteSearch:
    """Index of the sections of all pages; the location of a section is PAGE/#ANCHOR."""

    def __init__(self, site: Path) -> None:
        content = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
        self.separator = re.compile(content["config"]["separator"])
        fields = content["config"]["fields"]
        self.boosts = {name: field["boost"] for name, field in fields.items()}
        self.sections: dict[str, dict[str, Any]] = {it["location"]: it for it in content["docs"]}
        self.counts = {location: self.count(it) for location, it in self.sections.items()}
        self.postings = self.collect_postings()
        self.terms = list(self.postings)

    def tokens(self, text: str) -> list[str]:
        return [token for token in self.separator.split(text.lower()) if token]

    def count(self, section: dict[str, Any]) -> dict[str, Counter[str]]:
        """Field -> its terms without stop words and tags of HTML."""
        texts = {name: section.get(name) or "" for name in self.boosts}
        plain = {name: TAG.sub(" ", str(text)) for name, text in texts.items()}
        return {
            name: Counter(token for token in self.tokens(text) if token not in STOP_WORDS)
            for name, text in plain.items()
        }

    def collect_postings(self) -> dict[str, list[tuple[str, float]]]:
        """Term -> the location and the weight of each of its occurrences, by term."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for location, fields in self.counts.items():
            for name, terms in fields.items():
                for term in terms:
                    found[term].append((location, name))
        return {
            term: [(it, self.weight(term, it, name, len(places))) for it, name in places]
            for term, places in sorted(found.items())
        }

    def weight(self, term: str, location: str, name: str, documents: int) -> float:
        """BM25 without normalization by length, times the boosts of the field and the page."""
        frequency = self.counts[location][name][term]
        inverse = math.log(1 + abs((len(self.sections) - documents + 0.5) / (documents + 0.5)))
        boost = self.boosts[name] * self.sections[location].get("boost", 1)
        return round(inverse * (K1 + 1) * frequency / (K1 + frequency) * boost, 3)

    def search(self, query: str) -> list[str]:
        """Locations, the best first. Dashes before a word have no effect, as in the site."""
        clauses = self.parse(re.sub(r"(^|\s)-+(?=\w)", r"\1", query))
        scores: dict[str, float] = defaultdict(float)
        matched: dict[str, set[str]] = defaultdict(set)
        expanded = self.expand(clauses)
        norm = math.sqrt(sum(n**2 for n in expanded.values())) or 1.0
        for term, n in expanded.items():
            for location, weight in self.postings[term]:
                scores[location] += n * weight / norm
                matched[location].add(term)
        words = [word for word, _ in clauses]
        found = {it: score * self.boost(it, words, matched[it]) for it, score in scores.items()}
        return sorted(found, key=lambda location: -found[location])

    def parse(self, query: str) -> list[tuple[str, bool]]:
        """Words, and whether longer ones match.

        lunr reads each part of a hyphenated word together with the others.
        """
        clauses = []
        for word in query.lower().split():
            parts = [part for part in word.split("-") if part]
            for number, part in enumerate(parts):
                for token in self.tokens(part):
                    *first, last = [*parts[:number], token, *parts[number + 1 :]]
                    clauses += [*((it, False) for it in first), (last, True)]
        return clauses

    def expand(self, clauses: list[tuple[str, bool]]) -> Counter[str]:
        """The terms that match, each with the number of clauses that it matches."""
        expanded: Counter[str] = Counter()
        for word, longer in clauses:
            start, end = (bisect_left(self.terms, it) for it in (word, word + chr(0x10FFFF)))
            expanded.update(self.terms[start:end] if longer else {word} & self.postings.keys())
        return expanded

    def boost(self, location: str, words: list[str], terms: set[str]) -> float:
        """Factor for whole pages, and for the share of the query's words that match."""
        hits = {word: any(term.startswith(word) for term in terms) for word in words}
        counted = [hit for word, hit in hits.items() if hit or word not in STOP_WORDS]
        return 1 + (("#" not in location) + sum(counted) / max(1, len(counted))) ** 2
