"""How commands are declared: by functions, whose docstrings have their help, that of their options, and examples; and
what `regard` does with their errors.

>>> def greet(word: str, times: Annotated[int, typer.Option(min=1)] = 1) -> None:
...     '''Say hello.
...
...     word WORD  Whom to greet.
...     times      How often.
...
...     Examples:
...       regard greet Ada
...     '''
>>> parts_of(greet)
('Say hello.', {'word': ('WORD', 'Whom to greet.'), 'times': ('', 'How often.')}, '  regard greet Ada')
"""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from regard.cli import end_at_once, terminal
from regard.cli.outputs import Output
from regard.errors import RegardError, reason_of, shortened
from regard.output import characters
from regard.output.files import FIGURES, USUAL, Format

_PARAMETER = re.compile(r"^(\w+)(?: (\S.*?))? {2,}(\S.*(?:\n {4,}\S.*)*)", re.MULTILINE)
Function = Callable[..., None]


class Command(TyperCommand):
    """A command whose help spells in ASCII what the terminal's encoding lacks; click would print UTF-8 anyway."""

    def get_help(self, ctx: Any) -> str:
        return characters.encodable(super().get_help(ctx), sys.stdout.encoding or "ascii")


class Group(TyperGroup):
    """Commands under one name, with help as above."""

    def get_help(self, ctx: Any) -> str:
        return characters.encodable(super().get_help(ctx), sys.stdout.encoding or "ascii")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands; click would cut each description to one line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command]
            )


def group(
    about: str, examples: str = "", commands: Iterable[Function] = (), cls: type[TyperGroup] = Group, **options: Any
) -> typer.Typer:
    """Commands under one name."""
    options = {"no_args_is_help": True, "epilog": _epilog(examples), **options}
    app = typer.Typer(cls=cls, help=about, rich_markup_mode=None, add_completion=False, **options)
    for function in commands:
        add(app, function)
    return app


def add(app: typer.Typer, function: Function) -> None:
    """Add a command; its parameter `output`, if it has one, is made of the options of `Writes`."""
    summary, helps, examples = parts_of(function)
    parameters, writes = [], None
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.name == "output":
            writes = get_args(parameter.annotation)[1]
        else:
            described = _described(parameter, *helps.pop(parameter.name, ("", "")))
            parameters.append(parameter.replace(annotation=described))
    if helps:
        raise TypeError(f"{function.__name__} describes {', '.join(helps)}, which it does not have")
    outputs = {} if writes is None else writes.options
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in outputs.items()
    ]

    @wraps(function)
    def run(**values: Any) -> None:
        if writes is not None:
            chosen = {name: values.pop(name) for name in outputs}
            values["output"] = Output.of(**chosen, formats=writes.formats)
        function(**values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app.command(cls=Command, help=summary, epilog=_epilog(examples))(run)


def parts_of(function: Function) -> tuple[str, dict[str, tuple[str, str]], str]:
    """What the docstring of a command says: the summary; of each parameter its metavar and its help; the examples."""
    body, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples:\n")
    summary, _, described = body.partition("\n\n")
    helps = {name: (metavar, " ".join(text.split())) for name, metavar, text in _PARAMETER.findall(described)}
    return " ".join(summary.split()), helps, examples


def _epilog(examples: str) -> str | None:
    """Examples and what follows them as they are written: click would wrap their lines."""
    return "\n\n\b\n".join(["Examples:", *examples.split("\n\n")]) if examples else None


def _described(parameter: inspect.Parameter, metavar: str, text: str) -> Any:
    """The type of a parameter as typer reads it, with its help."""
    kind, *about = [parameter.annotation]
    if get_origin(kind) is Annotated:
        kind, *about = get_args(kind)
    if about:
        info = copy(about[0])
    elif parameter.default is inspect.Parameter.empty:
        info = typer.Argument()
    elif parameter.default is False:  # a switch that is off has no --no-
        info = typer.Option(f"--{parameter.name.replace('_', '-')}")
    else:
        info = typer.Option()
    info.help, info.metavar = text or info.help, metavar or info.metavar
    return Annotated[kind, info]


def show_option(formats: Sequence[Format]) -> Any:
    """`--show`, with the formats that a command writes."""
    names = [str(kind) for kind in formats]

    def parse(name: str) -> Format:
        if name not in names:
            expected = f"{', '.join(names[:-1])} or {names[-1]}"
            raise typer.BadParameter(f"--show is {name!r}; expected {expected}.")
        return Format(name)

    text = "The format of standard output, or of --out FILE without an ending."
    return typer.Option("--show", metavar=f"[{'|'.join(names)}]", parser=parse, help=text)


@dataclass(frozen=True, slots=True)
class Writes:
    """The options of what a command writes, as an annotation of its parameter `output`.

    formats   those that the command writes; with figures among them, it has the options of figures
    full      whether the command has --full
    """

    formats: Sequence[Format] = USUAL
    full: bool = True

    @property
    def options(self) -> dict[str, tuple[Any, Any]]:
        """The type and the default of each option, by the names of `Output.of`."""
        options: dict[str, tuple[Any, Any]] = {"show": (Annotated[Format | None, show_option(self.formats)], None)}
        options |= {"full": (Full, False)} if self.full else {}
        return options | {"out": (Out, None)} | (FIGURE_OPTIONS if FIGURES & set(self.formats) else {})


Full = Annotated[bool, typer.Option("--full", help="Shorten nothing: all rows, all numbers.")]
Out = Annotated[
    list[str] | None,
    typer.Option(
        "--out", metavar="FILE", help="Write to this file in the format of its ending; may be repeated. - is stdout."
    ),
]
Aspect = Annotated[str | None, typer.Option("--aspect", metavar="16:9", help="The shape of a figure, for slides.")]
FontSize = Annotated[
    float | None,
    typer.Option("--font-size", metavar="PT", min=1, max=200, help="Smallest type of a figure that fills a slide."),
]
NoCaption = Annotated[bool, typer.Option("--no-caption", help="Leave out the title and notes of a figure.")]
FIGURE_OPTIONS = {"aspect": (Aspect, None), "font_size": (FontSize, None), "no_caption": (NoCaption, False)}


FOUND_SOMETHING, BAD_INPUT, NOT_WRITTEN, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 130, 141

EXIT_CODES = """Exit codes:

\b
  0    success
  1    `regard check` found a number that is missing, or neither right nor rounded
  2    wrong input, with a message on standard error
  3    standard output cannot be written: a full disk, for example
  130  interrupted (Ctrl-C)
  141  the reader of the output closed its pipe (128 + SIGPIPE)
"""

UsageError: Any = typer.BadParameter.__bases__[0]  # click's, or that of the copy of click in newer versions of typer


class Commands(Group):
    """Commands with the exit codes above; errors are printed as a sentence, not as a traceback."""

    def invoke(self, ctx: Any) -> Any:
        if signal.getsignal(signal.SIGINT) is end_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except RegardError as problem:
            terminal.complain(str(problem))
            raise typer.Exit(BAD_INPUT) from None
        except MemoryError as problem:
            terminal.complain(f"There is not enough memory. {problem}".rstrip())
            raise typer.Exit(BAD_INPUT) from None
        except UsageError as problem:
            problem.message = shortened(problem.message)
            raise

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except UsageError as problem:
            problem.message = shortened(problem.message)
            raise

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            try:
                return super().main(*args, **options)
            finally:
                sys.stdout.flush()  # here, where a failure can still be reported
        except SystemExit as ended:
            if isinstance(ended.__context__, BrokenPipeError):  # click ends with 1, which `regard check` has taken
                _abandon(sys.stdout)
                sys.exit(PIPE_CLOSED)
            raise
        except BrokenPipeError:
            _abandon(sys.stdout)
            sys.exit(PIPE_CLOSED)
        except OSError as problem:
            code = getattr(problem.__context__, "exit_code", None)
            if code is not None:  # a usage error whose message cannot be written to standard error
                sys.exit(code)
            if problem.filename is not None:
                terminal.complain(f"{str(problem.filename)!r}: {reason_of(problem)}.")
                sys.exit(BAD_INPUT)
            _abandon(sys.stdout)
            terminal.complain(f"Standard output cannot be written: {reason_of(problem)}.")
            sys.exit(NOT_WRITTEN)


def _abandon(stream: Any) -> None:
    """Redirect a stream to the null device, so that the flush at exit does not fail again."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
