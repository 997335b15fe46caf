"""Draws the README's picture from what `regard steps --example cat-sat` prints: `make picture`."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from regard import examples
from regard.output import text
from regard.teaching.traced_attention import step_tables, traced

PICTURE = Path(__file__).with_name("the-cat-sat.svg")

PAPER = TerminalTheme(
    background=(250, 250, 247),
    foreground=(40, 42, 46),
    normal=[
        (40, 42, 46), (176, 48, 48), (0, 122, 77), (140, 90, 0),
        (38, 88, 160), (128, 60, 140), (0, 112, 130), (90, 92, 96),
    ],
)  # fmt: skip


def draw() -> str:
    """The picture as SVG. Without rich's web font: a picture in a README loads nothing from elsewhere."""
    steps = traced(None, examples.named("cat-sat").content)
    rendered = text.render_all(step_tables(steps))
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for place, table in enumerate(rendered):
        console.print(*([""] if place else []), table, sep="\n")
    svg = console.export_svg(title="regard steps --example cat-sat", theme=PAPER)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return re.sub(r"font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace", svg)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
