"""`regard studio`: see attention in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import files, printing
from regard.errors import OptionError

EXAMPLES = """Examples:

\b
  regard studio
  regard studio "The kids were scared of the lions, so they left right away."
  regard studio "Once upon a time" --model smollm2
  regard studio --file letter.txt --port 8000 --no-browser
"""
SIZE = 64  # of the vectors of a synthetic reading
HEADS = 8


def studio(
    text: Annotated[str | None, typer.Argument(help="A text to begin with; - reads it from standard input.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model that reads; `regard models` lists them.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="A text file, or a reading that was saved, to begin with.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; a free one by default.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on: only this machine by default.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    synthetic: Annotated[
        int | None, typer.Option(min=2, max=1_000_000, hidden=True, help="So many random tokens.")
    ] = None,
) -> None:
    """Open the studio: a local page that reads a text as you type, and shows its attention."""
    from regard.studio.serve import serve

    if sum(given is not None for given in (text, file, synthetic)) > 1:
        raise OptionError("Give a text or --file, not both.")

    def make() -> Any:
        from regard.studio.library import Library
        from regard.studio.server import Studio

        subject, begin = (None, text) if synthetic is None else (_synthetic(synthetic), None)
        if text == files.STANDARD:
            begin = files.text_of(files.STANDARD)
        if file is not None:
            subject, begin = _opened(file)
        return Studio(Library(model), begin, subject)

    serve(make, host=host, port=port, browser=browser, tell=printing.remark)


def _opened(path: str) -> tuple[Any, str | None]:
    """A reading that was saved, or a text."""
    from regard.reading import Reading
    from regard.studio.server import START, is_saved

    try:
        with Path(path).open("rb") as opened:
            start = opened.read(START)
    except OSError:
        start = b""
    return (Reading.load(path), None) if is_saved(start) else (None, files.text_of(path))


def _synthetic(count: int) -> Any:
    """Random queries, keys and values of so many tokens, with a few that everybody looks at."""
    import numpy as np

    from regard.attention import Attention
    from regard.reading import Reading

    rng = np.random.default_rng(0)
    queries, keys, values = (rng.standard_normal((HEADS, count, SIZE), dtype=np.float32) for _ in range(3))
    return Reading.of(Attention(queries, keys), values, model="random numbers")
