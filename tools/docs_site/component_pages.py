"""Pages of the options of architectures, tasks and other components."""

from __future__ import annotations

from typing import Any

from toolkit.common.registry import REGISTRIES
from toolkit.config.declared import list_options, to_flag
from tools.docs_site.catalog import CatalogEntry, entries_of, list_entries
from tools.docs_site.option_entries import anchor, entry_section, format_default, mark_up

COMPONENT_PAGES = {
    "architectures": ("Architectures", ("arch",)),
    "tasks": ("Tasks and criteria", ("task", "criterion")),
    "optimizers": ("Optimizers and schedules", ("optimizer", "lr_scheduler")),
    "formats": ("Data formats", ("format",)),
}
"""Page -> title and sections."""
PLURALS = {
    "arch": "Architectures",
    "task": "Tasks",
    "criterion": "Criteria",
    "optimizer": "Optimizers",
    "lr_scheduler": "Learning-rate schedulers",
    "format": "Data formats",
}


def component_page(title: str, sections: tuple[str, ...]) -> str:
    """The components of these sections, and their options."""
    parts = [f"# Options of {title.lower()}"]
    for section in sections:
        parts += [*list_components(section), *component_options(section)]
    return "\n\n".join(parts)


def list_components(section: str) -> list[str]:
    """The components of a registry, each family with a table of its defaults."""
    selection, *_ = entries_of(section)
    families = REGISTRIES[section].families().items()
    tables = [family_section(section, name, sizes) for name, sizes in families]
    return [f"## {PLURALS[section]}", entry_section(selection), *tables]


def family_section(section: str, family: str, sizes: list[str]) -> str:
    """A component with its sizes: what they are, and a table of their defaults."""
    names = [family, *(f"{family}{size}" for size in sizes)]
    summaries = [f"- `{it}`: {mark_up(REGISTRIES[section].summary(it))}" for it in names]
    heading = f"### `{family}` {{ #{section.replace('_', '-')}-{family.replace('_', '-')} }}"
    table = defaults_table(section, names)
    excluded = f'<div data-search-exclude markdown="1">\n\n{table}\n\n</div>' if table else ""
    return "\n\n".join([heading, "\n".join(summaries), excluded])


def defaults_table(section: str, names: list[str]) -> str:
    """Options of a family in rows, defaults of its sizes in columns."""
    defaults = {name: defaults_by_path(section, name) for name in names}
    rows = [
        f"| [`{to_flag(path)}`](#{find_anchor(path, names[0])}) | "
        + " | ".join(format_default(defaults[name][path]) or "-" for name in names)
        for path in defaults[names[0]]
    ]
    columns = [f"`{name.removeprefix(names[0]) or name}`" for name in names]
    columns = columns if len(names) > 1 else ["default"]
    head = [f"| option | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join([*head, *(f"{row} |" for row in rows)]) if rows else ""


def defaults_by_path(section: str, name: str) -> dict[str, Any]:
    return {o.path: o.default for o in list_options(section, REGISTRIES[section][name].config)}


def find_anchor(path: str, owner: str) -> str:
    return next(anchor(e) for e in list_entries() if e.key == path and owner in e.defaults)


def component_options(section: str) -> list[str]:
    """The options under the family that has them, or under a heading for several families."""
    groups: dict[str, list[str]] = {}
    for entry in entries_of(section)[1:]:
        title = f"Options of {group_of(section, entry)}"
        groups.setdefault(title, []).append(entry_section(entry))
    several = f"Options of several {PLURALS[section].lower()}"
    ordered = sorted(groups.items(), key=lambda group: group[0] != several)
    return [f"## {title}\n\n" + "\n".join(texts) for title, texts in ordered]


def group_of(section: str, entry: CatalogEntry) -> str:
    families = REGISTRIES[section].families().items()
    having = [family for family, _ in families if family in entry.defaults]
    return f"`{having[0]}`" if len(having) == 1 else f"several {PLURALS[section].lower()}"
