"""What a command writes, in which format, and where to: as `--out FILE` (repeatable) and `--show FORMAT` say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard import atomic_file
from regard.cli import terminal, text_input
from regard.errors import OptionError, Unsupported
from regard.output.files import BINARY, ENDINGS, FIGURES, USUAL, Format, file_of
from regard.output.svg import Layout, Svg, aspect_ratio, usual_layout
from regard.tables import Table

DRAWN = FIGURES | {Format.HTML}
NO_LAYOUT: Layout = {"aspect": None, "font_size": None, "caption": True}


@dataclass(frozen=True, slots=True)
class Target:
    """One output: its format, and its file or None for standard output."""

    format: Format
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What the options of output ask for, checked before anything is computed.

    is_printed  whether tables are printed in the terminal, fitted to its width
    full        whether nothing is shortened
    layout      of figures

    >>> Output.of(["a.svg", "b.tex"]).targets
    (Target(format=<Format.SVG: 'svg'>, path='a.svg'), Target(format=<Format.LATEX: 'latex'>, path='b.tex'))
    """

    targets: tuple[Target, ...]
    is_printed: bool
    full: bool = False
    layout: Layout = field(default_factory=Layout)

    @classmethod
    def of(
        cls, out: Sequence[str] | None = None, show: Format | None = None, full: bool = False, *,
        aspect: str | None = None, font_size: float | None = None, no_caption: bool = False,
        formats: Collection[Format] = USUAL, usual: Format = Format.TABLE,
    ) -> Output:  # fmt: skip
        """From the values of the options.

        formats  those that the command writes
        usual    the format of standard output where `--show` is not given
        """
        if aspect is not None:
            aspect_ratio(aspect)
        layout: Layout = {"aspect": aspect, "font_size": font_size, "caption": not no_caption}
        names = list(out or [text_input.STANDARD])
        if double := next((name for name in names if names.count(name) > 1), None):
            raise OptionError(f"--out names {double!r} twice; each file once.")
        paths = (None if name == text_input.STANDARD else name for name in names)
        targets = tuple(Target(_format(path, show, usual, formats), path) for path in paths)
        for target in targets:
            _check(target)
        if layout != NO_LAYOUT and not any(target.format in DRAWN for target in targets):
            raise OptionError(
                "--aspect, --font-size and --no-caption are for figures: add --out FILE.svg, .pdf or .png."
            )
        return cls(targets, out is None and targets[0].format is Format.TABLE, full, layout)

    def most(self, rows: int) -> int | None:
        """The rows of a table that are shown: so many in a terminal, unless `--full` is given; None for all."""
        return rows if self.is_printed and not self.full else None

    def publish(self, tables: Sequence[Table], draw: Callable[[], Svg], title: str = "") -> None:
        """Print tables in the terminal, or write them or the figure of the same numbers."""
        if self.is_printed:
            terminal.show(tables, self.full)
        else:
            self.write(lambda kind: file_of(tables, draw, kind, title, self.full))

    def write(self, content: Callable[[Format], str | bytes]) -> None:
        """Compute every output, then write them; each file is replaced whole or left as it was.

        Where a package is missing for one of several, the others are written before the error names it.
        """
        contents: dict[Format, str | bytes] = {}
        missing: dict[Format, Unsupported] = {}
        for kind in dict.fromkeys(target.format for target in self.targets):
            try:
                with usual_layout(self.layout):
                    contents[kind] = content(kind)
            except Unsupported as problem:
                if len(self.targets) == 1:
                    raise
                missing[kind] = problem
        has_results = any(target.path is None for target in self.targets)  # on standard output
        for target in self.targets:
            if target.format in missing:
                continue
            if target.path is None:
                terminal.raw(contents[target.format])
                continue
            atomic_file.write(target.path, contents[target.format])
            line = f"Wrote {target.path}."
            terminal.remark(line) if has_results else terminal.show([line])
        if missing:
            unwritten = [(target.path or "standard output", missing.get(target.format)) for target in self.targets]
            raise Unsupported("\n".join(f"{name} is not written: {why}" for name, why in unwritten if why))


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
