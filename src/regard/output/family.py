"""What every page of Regard has in common: one header, what the page is, and where to go next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from html import escape
from importlib.resources import files


def sheet(*path: str) -> str:
    """A style sheet of the package."""
    return files("regard").joinpath(*path).read_text(encoding="utf-8")


@lru_cache
def style() -> str:
    """The style sheet of header and footer, which the viewer's pages have among theirs."""
    return sheet("web", "page", "family.css")


def header(links: Mapping[str, str], current: str = "") -> str:
    """The header of a page that is not the viewer's: the name, and the pages beside it.

    links     labels and addresses; the first one is the start, where the others are in a menu
    current   the label of the page, or of the part of a site that it belongs to

    >>> header({"Try it": "index.html", "Read": "read.html"}, "Read").count("aria-current")
    1
    """
    anchors = {
        label: f'<a href="{escape(address)}"{" aria-current=page" * (label == current)}>{escape(label)}</a>'
        for label, address in links.items()
    }
    start = next(iter(links), None)
    name, pages = "<strong>Regard</strong>", "".join(anchors.values())
    if start is not None and current == start:
        del anchors[start]
        pages = f"<details><summary>{escape(' · '.join(anchors))}</summary>{''.join(anchors.values())}</details>"
    elif start is not None:
        name = f'<a class="regard-home" href="{escape(links[start])}">{name}</a>'
    return f'<header><nav class="regard-site" aria-label="Site">{name}{pages}</nav></header>\n'


def footer(sentence: str, links: Mapping[str, str] | None = None) -> str:
    """Where to go next: a sentence, and links where there are some."""
    anchors = "".join(f' <a href="{escape(address)}">{escape(label)}</a>' for label, address in (links or {}).items())
    return f'<footer class="regard-next"><p><strong>Next</strong> {escape(sentence)}{anchors}</p></footer>\n'
