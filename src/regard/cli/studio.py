"""`regard studio`: the viewer in the browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import terminal, text_input
from regard.cli.options import HF, AnyModel
from regard.errors import OptionError


def studio(
    text: Annotated[str | None, typer.Argument()] = None,
    model: AnyModel = None,
    file: str | None = None,
    query: str | None = None,
    layer: Annotated[int | None, typer.Option(min=0)] = None,
    head: Annotated[int | None, typer.Option(min=0)] = None,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    host: str = "127.0.0.1",
    browser: bool = True,
    synthetic: Annotated[int | None, typer.Option(min=2, max=1_000_000)] = None,
) -> None:
    """Open the viewer in the browser: a local page that reads a text as you type.

    text         A text to start with; - reads it from standard input.
    file FILE    A text file or a saved reading to start with.
    query WORD   Open with this query word; the:2 is the second 'the'.
    layer        Open with this layer, counted from 0.
    head         Open with this head, counted from 0.
    port         The port to listen on; any free one by default.
    host         The address to listen on; by default this machine only.
    browser      Open the browser.
    synthetic N  Start with N tokens and made-up heads: first token, window, …

    Examples:
      regard studio
      regard studio "The kids were scared of the lions, so they left right away."
      regard studio "Once upon a time" --model smollm2
      regard studio "The kids ran, so they live." --layer 3 --head 1 --query they
      regard studio "The cat sat" --model hf:./a-folder-of-transformers
      regard studio --file letter.txt --port 8000 --no-browser
      regard studio --synthetic 100000
    """
    from regard.studio.serve import serve

    if sum(source is not None for source in (text, file, synthetic)) > 1:
        raise OptionError("Give one of a text, --file and --synthetic.")

    def make() -> Any:
        from regard.reading.synthetic import synthetic as made_up
        from regard.studio.library import Library
        from regard.studio.server import Studio

        subject, begin = (None, text) if synthetic is None else (made_up(synthetic), None)
        if text == text_input.STANDARD:
            begin = text_input.text_of(text_input.STANDARD)
        if file is not None:
            subject, begin = _opened(file)
        library = _library_with(model) if model is not None and model.startswith(HF) else Library(model)
        return Studio(library, begin, subject)

    chosen = {"layer": layer, "head": head, "query": query}
    serve(make, host=host, port=port, browser=browser, chosen=chosen, tell=terminal.remark)


def _library_with(name: str) -> Any:
    """The models of the studio and, as the one to begin with, one that transformers runs."""
    from regard.models.model import model
    from regard.studio.library import Library
    from regard.watch.pretrained import Pretrained

    label = f"{name.removeprefix(HF)} (transformers)"  # in the list of models and on the page
    watched = replace(Pretrained.open(name.removeprefix(HF)), name=label)
    return Library(label, load=lambda other: watched if other == label else model(other))


def _opened(path: str) -> tuple[Any, str | None]:
    """A saved reading, or a text."""
    from regard.reading import Reading
    from regard.studio.server import START, is_saved

    try:
        with Path(path).open("rb") as opened:
            start = opened.read(START)
    except OSError:
        start = b""
    return (Reading.load(path), None) if is_saved(start) else (None, text_input.text_of(path))
