"""The viewer and a reading, or whatever else it shows, in one HTML file, which opens from disk with the network off.

The page holds the bundled script, the style sheet and the kernels it computes with, gzipped, and frames in base64, so
that no text can be parsed as markup: one per layer, with queries, keys and values, in 16 bits where that is accurate
enough. A Content-Security-Policy allows this script and this style sheet, by their hashes, WebAssembly, no more.
"""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from html import escape
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard import atomic_file
from regard.output import family
from regard.reading.layer_numbers import position
from regard.teaching.lookup import Lookup
from regard.viewer import bundle, frames, web_model
from regard.viewer.describe import describe_lookup, is_certified, title_of
from regard.viewer.model_answers import reader_of
from regard.viewer.page_parts import PageContents, block, blocks, check_size, kept_of
from regard.viewer.queries import reading_of

ENTRY = "hosts/page.js"
MODEL_ENTRY = "hosts/model_page.js"  # of pages with a model
WORKER = "models/worker.js"  # runs the model
FRONT = "Try it"  # what a site calls the page with its model
SAME_ORIGIN = "connect-src 'self'; "
FILE_PART = 24 << 20  # bytes of a model's file in one block, a multiple of 3
# The policy has the hashes of what it inserts.
LOADER = (Path(__file__).parent / "loader.js").read_text(encoding="utf-8").removesuffix("\n")


def page(shown: Any, **options: Any) -> str:
    """The page as one string; options as of `pieces`."""
    return "".join(pieces(shown, **options))


def save(shown: Any, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the page to a file, one layer at a time; an existing file is replaced only when all is written."""
    return atomic_file.write(path, pieces(shown, **options))


def pieces(
    shown: Any,
    *,
    layers: Any = None,
    heads: Any = None,
    steps: bool = True,
    start: Mapping[str, int] | None = None,
    beside: Any = None,
    links: Mapping[str, str] | None = None,
    with_model: bool = False,
    model_at: str | None = None,
) -> Iterator[str]:
    """The page of a reading, a trace, an attention or a look-up, in pieces.

    layers, heads  keep only these, by their numbers in the model: a smaller page, as exact as a full one
    steps          include the values, so that every step can be followed; a third smaller without
    start          where it opens: layer and head by their numbers in the model, query (a token)
    beside         another reading, to compare with
    links          other pages of a site: their labels and addresses
    with_model     put the model into the page, where it reads other texts
    model_at       the address of a model.json beside the page on its web server: see `regard.viewer.web_model`
    """
    kernels = block("wasm", bundle.wasm())
    if isinstance(shown, Lookup):
        description = describe_lookup(shown)
        description["has"] = []  # the page computes the answers itself
        yield from document(
            description["title"], ENTRY, [kernels, block("describe", frames.pack(description))], links=links
        )
        return
    reading = reading_of(shown)
    kept = kept_of(reading, layers, heads)
    check_size(reading, kept)
    if start is not None:
        numbers = {"layer": reading.layer_numbers, "head": reading.head_numbers}
        positions = {axis: position(axis, start[axis], numbers[axis]) for axis in numbers if axis in start}
        start = {**start, **positions}
    has_model = with_model or model_at is not None
    first, rest = blocks(reading, kept, steps, start, weights=not has_model)
    first = chain([kernels], first)
    if beside is not None:
        other = reading_of(beside)
        check_size(other, PageContents())
        begins, ends = blocks(other, PageContents(), steps, None, prefix="2-")
        first, rest = chain(first, [next(begins)]), chain(rest, begins, ends)
    certificate = f" Certificate: {reading.certificate}." if is_certified(reading) else ""
    fallback = f"{certificate} {reading.unverified}".rstrip()
    title = title_of(reading) or "Attention"
    if model_at is not None:
        first = chain(first, _model_blocks({"address": model_at}))
        yield from document(title, MODEL_ENTRY, first, rest, fallback=fallback, links=links, current=FRONT, loads=True)
    elif with_model:
        with _stored_model(reader_of(reading)) as (about, files):
            yield from document(
                title, MODEL_ENTRY, chain(first, about), chain(rest, files), fallback=fallback, links=links
            )
    else:
        yield from document(title, ENTRY, first, rest, fallback=fallback, links=links)


def shell(reader: Any = None) -> Iterator[str]:
    """A page with nothing to show, in pieces; with a model where one is given. The page's *Share* fills it in."""
    kernels = block("wasm", bundle.wasm())
    if reader is None:
        yield from document("Regard", ENTRY, [kernels])
    else:
        with _stored_model(reader) as (about, files):
            yield from document("Regard", MODEL_ENTRY, chain([kernels], about), files)


@contextmanager
def _stored_model(reader: Any) -> Iterator[tuple[Iterator[str], Iterator[str]]]:
    """The blocks of a model in a page: what the page knows of it, and its files."""
    with TemporaryDirectory() as folder:
        manifest = json.loads(web_model.write(reader, folder).read_bytes())
        stored = [name for name in ("tokenizer", "weights") if manifest[name] is not None]

        def files() -> Iterator[str]:
            """The files in parts, which a browser holds as strings."""
            for name in stored:
                with Path(folder, manifest[name]["file"]).open("rb") as file:
                    for number, part in enumerate(iter(partial(file.read, FILE_PART), b"")):
                        yield block(f"{name}-{number}", part)

        yield _model_blocks({"manifest": manifest}), files()


def document(
    title: str,
    entry: str,
    first: Iterable[str],
    rest: Iterable[str] = (),
    *,
    fallback: str = "",
    loads: bool = False,
    links: Mapping[str, str] | None = None,
    current: str = "",
    then: tuple[str, str, str] | None = None,
) -> Iterator[str]:
    """A page of one script: the blocks it needs to begin, the script, and blocks that may arrive while it works.

    entry     the module that is run
    fallback  what to say besides where JavaScript is disabled
    loads     whether it may load files from its own web server
    links     other pages of a site: their labels and addresses
    current   the label of this page among them
    then      where to go next: a sentence, and the command that follows it, or with links the label of a page
    """
    script, style = code(entry)
    yield _head(title, fallback, script, style, loads, links or {}, current)
    yield from program(script, style, first)
    yield from rest
    if then is not None:
        sentence, command, label = then
        linked = None if links is None else {label: links[label]}
        yield family.footer(sentence if links else f"{sentence} {command}", linked)
    yield "</body>\n</html>\n"


def code(entry: str) -> tuple[str, str]:
    """The script and the style sheet of a page."""
    return '"use strict";\n' + bundle.script(entry), bundle.style()


def program(script: str, style: str, blocks: Iterable[str]) -> Iterator[str]:
    """What runs a page: its code, gzipped, the blocks that it needs to begin, and the loader."""
    for name, content in (("style", style), ("script", script)):
        yield block(name, gzip.compress(content.encode(), mtime=0))  # the same bytes every time
    yield from blocks
    yield f"<script>{LOADER}</script>\n"


def policy_of(scripts: Iterable[str], styles: Iterable[str], more: str = "") -> str:
    """A Content-Security-Policy that allows the loader and these, by their hashes, WebAssembly, and nothing else."""

    def hashes(texts: Iterable[str]) -> str:
        return " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts)

    return (
        f"default-src 'none'; script-src {hashes((LOADER, *scripts))} 'wasm-unsafe-eval'; style-src {hashes(styles)}; "
        f"img-src data: blob:; {more}base-uri 'none'; form-action 'none'"
    )


def _model_blocks(about: Mapping[str, Any]) -> Iterator[str]:
    """What the page knows of its model, and the script that runs it."""
    yield block("worker", bundle.script(WORKER).encode())
    yield block("model", frames.pack(dict(about)))


def _head(
    title: str, fallback: str, script: str, style: str, loads: bool, links: Mapping[str, str], current: str
) -> str:
    title = escape("".join(letter if letter.isprintable() else " " for letter in title))
    policy = policy_of([script], [style], f"worker-src blob:; {SAME_ORIGIN if loads else ''}")
    navigation = family.header(links, current) if links else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{title}</title>\n</head>\n<body class="regard-page">\n{navigation}'
        '<main id="regard"><noscript>This page needs JavaScript, which is disabled.'
        f"{escape(fallback)}</noscript></main>\n"
    )
