"""What a command writes, in which format, and where to: as `--out FILE` (repeatable) and `--show FORMAT` say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard import atomic_file
from regard.cli import terminal, text_input
from regard.errors import OptionError, Unsupported
from regard.output.files import BINARY, ENDINGS, FIGURES, USUAL, Format, file_of
from regard.output.svg import Layout, Svg, usual_layout
from regard.tables import Table

DRAWN = FIGURES | {Format.HTML}
NO_LAYOUT: Layout = {"aspect": None, "font_size": None, "caption": True}


@dataclass(frozen=True, slots=True)
class Target:
    """One output: its format, its file, None for standard output, and how its figure is laid out."""

    format: Format
    path: str | None = None
    layout: Layout = field(default_factory=Layout, repr=False, compare=False)


def targets(
    out: Sequence[str] | None, show: Format | None = None, *, formats: Collection[Format] = USUAL,
    usual: Format = Format.TABLE, layout: Layout | None = None,
) -> tuple[Target, ...]:  # fmt: skip
    """What `--out` (each file) and `--show` ask for, checked before anything is computed.

    formats  those that the command writes
    usual    the format of standard output where `--show` is not given
    layout   of figures

    >>> targets(["a.svg", "b.tex"])
    (Target(format=<Format.SVG: 'svg'>, path='a.svg'), Target(format=<Format.LATEX: 'latex'>, path='b.tex'))
    """
    names = [None if name == text_input.STANDARD else name for name in out or [text_input.STANDARD]]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise OptionError(f"--out names {text_input.STANDARD if name is None else name!r} twice; each file once.")
    chosen = tuple(Target(_format(name, show, usual, formats), name, layout or {}) for name in names)
    for target in chosen:
        _check(target)
    if layout not in (None, NO_LAYOUT) and not any(target.format in DRAWN for target in chosen):
        raise OptionError("--aspect, --font-size and --no-caption are for figures: add --out FILE.svg, .pdf or .png.")
    return chosen


def write(targets: Sequence[Target], content: Callable[[Format], str | bytes]) -> None:
    """Compute every output, then write them; each file is replaced whole or left as it was.

    Where a package is missing for one of several, the others are written before the error names it.
    """
    contents: dict[Format, str | bytes] = {}
    missing: dict[Format, Unsupported] = {}
    for kind in dict.fromkeys(target.format for target in targets):
        try:
            with usual_layout(targets[0].layout):
                contents[kind] = content(kind)
        except Unsupported as problem:
            if len(targets) == 1:
                raise
            missing[kind] = problem
    aloud = all(target.path is not None for target in targets)
    for target in [target for target in targets if target.format in contents]:
        if target.path is None:
            terminal.raw(contents[target.format])
            continue
        atomic_file.write(target.path, contents[target.format])
        if aloud:
            terminal.show([f"Wrote {target.path}."])
        else:  # standard output holds a result
            terminal.remark(f"Wrote {target.path}.")
    if missing:
        unwritten = [
            (target.path or "standard output", missing[target.format]) for target in targets if target.format in missing
        ]
        raise Unsupported("\n".join(f"{name} is not written: {problem}" for name, problem in unwritten))


def publish(
    out: Sequence[str] | None, targets: Sequence[Target], tables: Sequence[Table], draw: Callable[[], Svg], *,
    full: bool = False, title: str = "",
) -> None:  # fmt: skip
    """Print tables in the terminal, or write them, or the figure of the same numbers, as `--out` and `--show` say."""
    if is_printed(out, targets):
        terminal.show(tables, full)
    else:
        write(targets, lambda kind: file_of(tables, draw, kind, title))


def is_printed(out: Sequence[str] | None, targets: Sequence[Target]) -> bool:
    """Whether tables are printed in the terminal, fitted to its width."""
    return out is None and targets[0].format is Format.TABLE


def _format(name: str | None, show: Format | None, usual: Format, formats: Collection[Format]) -> Format:
    """The format that a file's ending names, or `--show`."""
    endings = [ending for ending, named in ENDINGS.items() if named in formats]
    if name is None:
        chosen = show or usual
    else:
        ending = Path(name).suffix.lower()
        named = ENDINGS.get(ending)
        if named is None and show is None:
            raise OptionError(f"--out {name!r} does not end in a known format: use {', '.join(endings)}, or --show.")
        if named is not None and show not in (None, named):
            raise OptionError(f"--out {name!r} is {named} by its ending, and --show says {show}: give one of them.")
        chosen = named or show or usual
    if chosen not in formats:
        raise OptionError(f"This command does not write {chosen}; it writes {', '.join(endings)}.")
    return chosen


def _check(target: Target) -> None:
    if target.path is None:
        if target.format in BINARY and terminal.is_terminal():
            raise OptionError(f"A {target.format} is not text: name a file, as in --out figure.{target.format}.")
        return
    check_path(target.path)


def check_path(name: str) -> None:
    """An error if a file of this name cannot be written, before any work is done for it."""
    path = Path(name)
    try:
        is_folder, in_folder = path.is_dir(), path.absolute().parent.is_dir()
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        is_folder, in_folder = False, False
    if is_folder:
        raise OptionError(f"{name!r} cannot be written: it is a folder.")
    if not in_folder:
        raise OptionError(f"{name!r} cannot be written: there is no folder {str(path.parent)!r}.")
