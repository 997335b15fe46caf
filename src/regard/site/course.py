"""The numbered lessons: their order, the links above and below each, and their live figures.

A line `<!-- figure: vote reading=kids at=query=they -->` is a figure that the page's own modules draw where JavaScript
is on: a view of a reading (vote, steps), or softmax with `scores=6,4`. GitHub does not show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from regard import examples
from regard.attention import Attention
from regard.models.model import Model
from regard.site.pages import relative
from regard.viewer import bundle, page_parts
from regard.viewer.queries import reading_of

CAT_SAT = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
LESSONS = PurePosixPath("docs/lessons")
MARK = re.compile(
    r"^<!-- (?:recorded: \w+|end) -->\n", re.MULTILINE
)  # around a table that is written from recorded runs
LIVE = re.compile(r"\A<!-- live: ([\w=&:,%.+-]+) -->\n")  # where the live page shows what a lesson is about
FIGURE = re.compile(r"^<!-- figure: (vote|steps|softmax)((?: (?:reading|at|scores)=[\w=&:,.-]+)*) -->$", re.MULTILINE)
READINGS: dict[str, Callable[[Model], Any]] = {
    "kids": lambda model: model.read(str(examples.named("kids").content)),
    "cat-sat": lambda _model: Attention(CAT_SAT, CAT_SAT).explain(CAT_SAT, words=["The", "cat", "sat"]),
}


@dataclass(frozen=True)
class LessonFigure:
    """A live figure of a lesson."""

    kind: str
    options: dict[str, str]  # reading, at, scores

    @property
    def markup(self) -> str:
        """Where the page draws it."""
        options = {"figure": self.kind, **self.options}
        options |= {"scores": self.options["scores"].replace(",", " ")} if "scores" in self.options else {}
        data = "".join(f' data-{name}="{escape(value)}"' for name, value in options.items())
        return f'<div class="regard-live"{data}><noscript>A figure to try out: it needs JavaScript.</noscript></div>'


def with_figures(text: str) -> tuple[str, list[LessonFigure]]:
    r"""A lesson with a paragraph in the place of each figure, and the figures.

    >>> with_figures("One\n\n<!-- figure: softmax scores=6,4 -->\n")
    ('One\n\nregard-figure-0\n', [LessonFigure(kind='softmax', options={'scores': '6,4'})])
    """
    figures: list[LessonFigure] = []

    def replace(match: re.Match[str]) -> str:
        figures.append(LessonFigure(match[1], dict(part.split("=", 1) for part in match[2].split())))
        return f"regard-figure-{len(figures) - 1}"

    return FIGURE.sub(replace, text), figures


def placed(body: str, figures: list[LessonFigure]) -> str:
    """A rendered lesson with its figures."""
    for number, figure in enumerate(figures):
        body = body.replace(f"<p>regard-figure-{number}</p>", figure.markup)
    return body


def figure_blocks(figures: list[LessonFigure], model: Model) -> Iterator[str]:
    """What the figures of a page need: kernels, and their readings without the weights of the model."""
    yield page_parts.block("wasm", bundle.wasm())
    for name in dict.fromkeys(figure.options["reading"] for figure in figures if "reading" in figure.options):
        reading = reading_of(READINGS[name](model))
        steps = any(figure.kind == "steps" and figure.options["reading"] == name for figure in figures)
        for part in page_parts.blocks(
            reading, page_parts.PageContents(), steps, None, prefix=f"{name}-", weights=False
        ):
            yield from part


def without_live(text: str) -> tuple[str, str]:
    r"""A lesson without the line before its title and without the marks of its tables, and that line's address hash.

    >>> without_live("<!-- live: view=steps -->\n# One table\n")
    ('# One table\n', 'view=steps')
    """
    match = LIVE.match(text)
    text = MARK.sub("", text)
    return (text[match.end() :], match[1]) if match else (text, "")


def links(source: PurePosixPath, target: str, live: str, documents: Path, label: str) -> str:
    """The links of a lesson to its neighbours and to the live page, as HTML; empty for other documents.

    source      the lesson, as docs/lessons/04-one-table.md
    target      where it is in the site
    live        the address hash of the live page
    documents   the folder docs
    label       the accessible name
    """
    if source.parent != LESSONS:
        return ""
    names = sorted(path.stem for path in (documents / "lessons").glob("[0-9][0-9]-*.md"))
    index = names.index(source.stem)
    parts = [f"<span>Lesson {index + 1} of {len(names)}</span>"]
    if index > 0:
        parts.append(f'<a rel="prev" href="{names[index - 1]}.html">← Previous</a>')
    if index + 1 < len(names):
        parts.append(f'<a rel="next" href="{names[index + 1]}.html">Next →</a>')
    parts.append(f'<a href="{escape(relative(target, "index.html"))}#{escape(live)}">Try it on the live page</a>')
    return f'<nav class="lesson" aria-label="{label}">{"".join(parts)}</nav>\n'
