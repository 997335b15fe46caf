"""The numbered lessons: their order, and the links above and below each."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path, PurePosixPath

from regard.site.pages import relative

LESSONS = PurePosixPath("docs/lessons")
LIVE = re.compile(r"\A<!-- live: ([\w=&:,%.+-]+) -->\n")  # where the live page shows what a lesson is about


def without_live(text: str) -> tuple[str, str]:
    r"""A lesson without its first line, and the address hash that this line holds.

    >>> without_live("<!-- live: view=steps -->\n# One table\n")
    ('# One table\n', 'view=steps')
    """
    found = LIVE.match(text)
    return (text[found.end() :], found[1]) if found else (text, "")


def links(source: PurePosixPath, target: str, live: str, documents: Path) -> str:
    """The links of a lesson to its neighbours and to the live page, as HTML; empty for other documents.

    source      the lesson, as docs/lessons/04-one-table.md
    target      where it is in the site
    live        the address hash of the live page
    documents   the folder docs
    """
    if source.parent != LESSONS:
        return ""
    names = sorted(path.stem for path in (documents / "lessons").glob("[0-9][0-9]-*.md"))
    place = names.index(source.stem)
    parts = [f"<span>Lesson {place + 1} of {len(names)}</span>"]
    if place > 0:
        parts.append(f'<a rel="prev" href="{names[place - 1]}.html">← Previous</a>')
    if place + 1 < len(names):
        parts.append(f'<a rel="next" href="{names[place + 1]}.html">Next →</a>')
    parts.append(f'<a href="{escape(relative(target, "index.html"))}#{escape(live)}">Try it on the live page</a>')
    return f'<nav class="lesson" aria-label="Lessons">{"".join(parts)}</nav>\n'
