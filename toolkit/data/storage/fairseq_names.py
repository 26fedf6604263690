"""Names of the files in fairseq's folders: split, language pair and language."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import LanguagePair

NAME = re.compile(r"(?P<split>[^.]+)(?:\.(?P<pair>[^.]+)\.(?P<language>[^.]+))?")
"""`train.idx`, or `train.de-en.de.idx` for the German side of German to English."""


def find_languages(folder: Path, preferred: LanguagePair | None) -> tuple[str, tuple[str, ...]]:
    """The language pair as in the file names, and its source and target; or one language.

    A monolingual folder has none in its file names, or one in the pair LANG-None. The preferred
    pair is used if the folder has it, in this direction or the other; else the only one.
    """
    languages: dict[str, set[str]] = {}
    for match in match_names(folder):
        languages.setdefault(match["pair"] or "", set()).add(match["language"] or "")
    directions = {pair: found for pair in languages if (found := split_pair(pair, languages[pair]))}
    if preferred:
        for direction in (preferred, preferred[::-1]):
            if direction in directions.values():
                return "-".join(direction), preferred
    if len(languages) == 1:
        pair, own = next(iter(languages.items()))
        if len(own) == 1 and pair in ("", f"{min(own)}-None"):
            return pair, tuple(own)
        if pair in directions:
            return pair, directions[pair]
    raise languages_error(folder, [*directions] if directions.keys() == languages.keys() else [])


def split_pair(pair: str, languages: set[str]) -> LanguagePair | None:
    """Source and target of a pair that has files in both."""
    both = permutations(sorted(languages), 2) if len(languages) == 2 else ()
    return next((names for names in both if "-".join(names) == pair), None)


def languages_error(folder: Path, pairs: list[str]) -> ToolkitError:
    """The error for a folder without exactly one language pair."""
    if pairs:
        return ToolkitError(
            f"{folder} holds several language pairs: {', '.join(sorted(pairs))}. Choose one with "
            f"--source-lang and --target-lang of toolkit-train."
        )
    names = ", ".join(f"{match[0]}.idx" for match in match_names(folder)[:6])
    return ToolkitError(
        f"{folder} must hold text in one language, or both sides of language pairs, such as "
        f"train.de-en.de.idx and train.de-en.en.idx, but holds {names}. Give each pair its own "
        f"folder."
    )


def list_splits(folder: Path, pair: str) -> list[str]:
    """The splits of a pair, train10 after train9."""
    matches = [match for match in match_names(folder) if (match["pair"] or "") == pair]
    return sorted({match["split"] for match in matches}, key=by_number)


def match_names(folder: Path) -> list[re.Match[str]]:
    """The parts of the names of all index files; other names are an error."""
    matches = {path.name: NAME.fullmatch(path.stem) for path in sorted(folder.glob("*.idx"))}
    for name, match in matches.items():
        if match is None:
            raise ToolkitError(
                f"{folder / name} must be named like train.idx or train.de-en.de.idx, but is not. "
                f"Take it out of the folder."
            )
    return [match for match in matches.values() if match]


def by_number(name: str) -> tuple[str, int]:
    """Sort key that orders numbered names by number."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
