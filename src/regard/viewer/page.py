"""The viewer and a subject in one HTML file, which opens from disk with the network off.

The page holds the bundled script, the style sheet, and frames in base64, one per layer, so that no text can be parsed
as markup. A Content-Security-Policy allows this script and this style sheet, by their hashes, and nothing else.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from regard import atomic_file, errors
from regard.viewer import bundle, frames, page_data
from regard.viewer.metadata import describe
from regard.viewer.page_data import Kept
from regard.viewer.subject import Subject, subject_of

LONGEST = 16_384  # tokens
LARGEST = 1 << 28  # bytes of queries, keys and values in 16 bits
ENTRY = "hosts/page.js"
THUMBNAIL = 48  # cells along each side


def page(
    subject: Any, *, layers: Any = None, heads: Any = None, steps: bool = True, start: Mapping[str, int] | None = None
) -> str:
    """The page as one string.

    layers, heads  keep only these, counted from 0: a smaller page, in which every number is as exact as in a full one
    steps          include the values, so that every step can be followed; a third smaller without
    start          where it opens: layer, head, query (a token)
    """
    return "".join(pieces(subject, layers=layers, heads=heads, steps=steps, start=start))


def save(
    subject: Any, path: str | os.PathLike[str], *, layers: Any = None, heads: Any = None, steps: bool = True
) -> Path:
    """Write the page to a file, one layer at a time; an existing file is replaced only when all is written."""
    return atomic_file.write(path, pieces(subject, layers=layers, heads=heads, steps=steps))


def pieces(
    subject: Any, *, layers: Any = None, heads: Any = None, steps: bool = True, start: Mapping[str, int] | None = None
) -> Iterator[str]:
    """The page in pieces."""
    subject = subject_of(subject)
    kept = page_data.kept_of(subject, layers, heads)
    _check(subject, kept)
    script, style = _script(), _style()
    first, rest = _blocks(subject, kept, steps, start)
    yield _head(subject, script, style)
    yield from first
    yield f"<script>{script}</script>\n"  # the first layer is complete: the page works while the rest is loading
    yield from rest
    yield "</body>\n</html>\n"


def _check(subject: Subject, kept: Kept) -> None:
    count = max(subject.queries, subject.keys)
    if count > LONGEST:
        raise errors.OptionError(
            f"The text has {count:,} tokens; a page holds at most {LONGEST:,}.\n`regard studio` shows longer texts."
        )
    size = page_data.size_of(subject, kept)
    if size > LARGEST:
        raise errors.OptionError(
            f"Queries, keys and values take {size >> 20:,} MiB in 16 bits; a page holds at most {LARGEST >> 20}.\n"
            "Keep fewer layers or heads: layers=[3, 5], heads=[1], or --layers 3,5 --heads 1."
        )


def _blocks(
    subject: Subject, kept: Kept, steps: bool, start: Mapping[str, int] | None
) -> tuple[Iterator[str], Iterator[str]]:
    """What is needed to begin, with the layer that is shown first; and all the rest."""
    after = page_data.steps(subject, kept) if steps else {}
    has = [] if subject.lookup is not None else ["tile", "row", "statistics", "thumbnails", "along", "links"]
    has += ["vectors"] if steps and has else []
    has += ["steps"] if after else []
    layers = kept.layers_of(subject)
    description = describe(subject, has=has, kept={"layers": kept.layers, "heads": kept.heads})
    if start is not None:
        description["start"] = start
    wanted = (description["start"] or {}).get("layer", 0)
    shown = wanted if wanted in layers else layers[0] if layers else 0

    def of_layer(layer: int) -> Iterator[str]:
        heads = kept.heads_of(subject, layer)
        yield _block(f"thumbnails-{layer}", page_data.thumbnails(subject, layer, THUMBNAIL, heads))
        yield _block(f"layer-{layer}", page_data.layer(subject, layer, steps, heads))

    def first() -> Iterator[str]:
        yield _block("describe", frames.pack(description))
        if subject.attentions:
            yield _block("statistics", page_data.statistics(subject))
            yield from of_layer(shown)

    def rest() -> Iterator[str]:
        for layer in layers:
            if layer != shown:
                yield from of_layer(layer)
        for layer, frame in after.items():
            yield _block(f"steps-{layer}", frame)

    return first(), rest()


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
        '<div id="regard"><noscript>This page needs JavaScript, which is disabled.'
        f"{_certified(subject)}</noscript></div>\n"
    )


def _certified(subject: Subject) -> str:
    return "" if subject.certificate is None else escape(f" Certificate: {subject.certificate()}.")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _script() -> str:
    """The script, escaped so that nothing in it closes the element."""
    found = '"use strict";\n' + bundle.script(ENTRY)
    return found.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _style() -> str:
    found = bundle.style()
    if "</style" in found.lower():
        raise bundle.BundleError("The style sheet contains </style, which would close the element.")
    return found
