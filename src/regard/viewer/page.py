"""Everything in one file that opens from disk with the network off.

The page holds the joined script, the style, and frames in base64, a layer each: texts of any kind stay data, whatever
characters they are made of. A policy in the page allows this script and this style, by their hashes, and nothing else.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from regard import errors
from regard.viewer import bundle, frames, page_data
from regard.viewer.metadata import describe
from regard.viewer.subject import Subject, subject_of

LONGEST = 16_384  # tokens
LARGEST = 1 << 28  # bytes of queries, keys and values in 16 bits
LIGHT = 2_950_000  # bytes of a light page, which mails and repositories take
ENTRY = "hosts/page.js"
THUMBNAIL = 48  # cells along each side; 32 on light pages
LIGHT_THUMBNAIL = 32


def page(subject: Any, *, light: bool = False, steps: bool = True, start: Mapping[str, int] | None = None) -> str:
    """The whole page as a text.

    light  statistics, strongest keys and thumbnails alone
    steps  with the values, so that every step can be followed; a third smaller without
    start  where it opens: layer, head, query (a token)
    """
    return "".join(pieces(subject, light=light, steps=steps, start=start))


def save(subject: Any, path: str | os.PathLike[str], *, light: bool = False, steps: bool = True) -> Path:
    """Write the page to a file, a layer at a time; a file of that name is replaced only when all is written."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            for piece in pieces(subject, light=light, steps=steps):
                file.write(piece)
        unfinished.replace(path)
    except OSError as problem:
        raise errors.OptionError(f"{path} cannot be written: {(problem.strerror or str(problem)).lower()}.") from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return path


def pieces(
    subject: Any, *, light: bool = False, steps: bool = True, start: Mapping[str, int] | None = None
) -> Iterator[str]:
    """The page in pieces."""
    subject = subject_of(subject)
    _check(subject, light)
    script, style = _script(), _style()
    head, code = _head(subject, script, style), f"<script>{script}</script>\n"
    yield head
    if light:
        yield from _light_blocks(subject, LIGHT - len(head.encode()) - len(code.encode()), start)
        yield code
    else:
        first, rest = _full_blocks(subject, steps, start)
        yield from first
        yield code  # what is seen first is there: the page can be used while the rest comes in
        yield from rest
    yield "</body>\n</html>\n"


def _check(subject: Subject, light: bool) -> None:
    count = max(subject.queries, subject.keys)
    if count > LONGEST:
        raise errors.OptionError(
            f"This has {count:,} tokens; one file takes at most {LONGEST:,}.\n`regard studio` shows more."
        )
    size = page_data.size_of(subject)
    if not light and size > LARGEST:
        raise errors.OptionError(
            f"Queries, keys and values take {size >> 20:,} MiB in 16 bits; one file takes at most {LARGEST >> 20}.\n"
            "Leave them out: light=True, or --light."
        )


def _full_blocks(
    subject: Subject, steps: bool, start: Mapping[str, int] | None
) -> tuple[Iterator[str], Iterator[str]]:
    """What is needed to begin, with the layer that is seen first; and all the rest."""
    after = page_data.steps(subject) if steps else []
    has = [] if subject.lookup is not None else ["tile", "row", "statistics", "thumbnails", "along", "links"]
    has += ["vectors"] if steps and has else []
    has += ["steps"] if after else []
    shown = min((start or {}).get("layer", 0), max(subject.layers - 1, 0))
    others = [layer for layer in range(subject.layers) if layer != shown]

    def of_layer(layer: int) -> Iterator[str]:
        yield _block(f"thumbnails-{layer}", page_data.thumbnails(subject, layer, THUMBNAIL))
        yield _block(f"layer-{layer}", page_data.layer(subject, layer, steps))

    def first() -> Iterator[str]:
        yield _block("describe", frames.pack({**describe(subject, has=has), "start": start}))
        if subject.attentions:
            yield _block("statistics", page_data.statistics(subject))
            yield from of_layer(shown)

    def rest() -> Iterator[str]:
        for layer in others if subject.attentions else ():
            yield from of_layer(layer)
        for layer, frame in enumerate(after):
            yield _block(f"steps-{layer}", frame)

    return first(), rest()


def _light_blocks(subject: Subject, room: int, start: Mapping[str, int] | None) -> Iterator[str]:
    has = [] if subject.lookup is not None else ["tile", "row", "statistics", "thumbnails", "along", "links"]
    blocks = [_block("describe", frames.pack({**describe(subject, light=True, has=has), "start": start}))]
    if subject.attentions:
        blocks.append(_block("statistics", page_data.statistics(subject)))
        small = (page_data.thumbnails(subject, layer, LIGHT_THUMBNAIL) for layer in range(subject.layers))
        blocks += [_block(f"thumbnails-{layer}", frame) for layer, frame in enumerate(small)]
    room -= sum(len(block) for block in blocks)
    top = page_data.top_that_fits(subject, room * 3 // 4)
    yield from blocks
    for layer in range(subject.layers):
        yield _block(f"light-{layer}", page_data.light(subject, layer, top))


def _block(name: str, frame: bytes) -> str:
    return f'<script type="application/x-regard" id="regard-{name}">{b64encode(frame).decode()}</script>\n'


def _head(subject: Subject, script: str, style: str) -> str:
    title = escape("".join(letter if letter.isprintable() else " " for letter in subject.title)) or "Attention"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{title}</title>\n<style>{style}</style>\n</head>\n<body class="regard-page">\n'
        '<div id="regard"><noscript>This page draws itself with JavaScript, which is switched off here.'
        f"{_certified(subject)}</noscript></div>\n"
    )


def _certified(subject: Subject) -> str:
    return "" if subject.certificate is None else escape(f" Certificate: {subject.certificate()}.")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _script() -> str:
    """The script as a page can hold it: nothing in it ends the element early."""
    found = '"use strict";\n' + bundle.script(ENTRY)
    return found.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _style() -> str:
    found = bundle.style()
    if "</style" in found.lower():
        raise bundle.BundleError("The style sheet holds </style, which would end it early.")
    return found
