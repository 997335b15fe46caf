"""The command line: its commands, error handling and exit codes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from regard import examples as stored
from regard.cli import (
    check,
    compare,
    end_at_once,
    exercise,
    heads,
    lessons,
    lookup,
    models,
    see,
    site,
    steps,
    studio,
    terminal,
    text_input,
    train,
)
from regard.engines import select
from regard.errors import RegardError, shortened
from regard.tables import Column, Table
from regard.version import VERSION

FOUND_SOMETHING, BAD_INPUT, NOT_WRITTEN, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 130, 141

HELP = "Compute attention, and see it. `regard COMMAND --help` shows examples."
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


class _Group(terminal.Group):
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
                terminal.complain(f"{str(problem.filename)!r}: {text_input.reason(problem)}.")
                sys.exit(BAD_INPUT)
            _abandon(sys.stdout)
            terminal.complain(f"Standard output cannot be written: {text_input.reason(problem)}.")
            sys.exit(NOT_WRITTEN)


def _abandon(stream: Any) -> None:
    """Redirect a stream to the null device, so that the flush at exit does not fail again."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


app = typer.Typer(
    cls=_Group,
    help=HELP,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # keeps the lines of the examples as they are
)


def _print_version(wanted: bool) -> None:
    if wanted:
        terminal.show([f"regard {VERSION}"])
        raise typer.Exit


@app.callback()
def regard_(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


LISTING_EXAMPLES = """Examples:

\b
  regard examples
  regard examples kids
  regard examples cat-sat > vectors.json
  regard examples jane | regard lookup - "birth date"
"""


def examples(
    name: Annotated[str | None, typer.Argument(help="The example to print.")] = None,
) -> None:
    """List the examples, or print one of them."""
    if name is None:
        rows = tuple((example.name, example.kind, example.about) for example in stored.EXAMPLES.values())
        columns = (Column("Name", "word"), Column("Kind", "text"), Column("Description", "text"))
        terminal.show([Table("Examples", columns, rows, ("`regard examples NAME` prints one of them.",))])
        return
    chosen = stored.named(name)
    if terminal.is_terminal():  # a file or a pipe gets only the content
        tries = [f"  {command}" for command in chosen.commands]
        terminal.show([f"{chosen.about}.", str(chosen), *(["\n".join(["Try:", *tries])] if tries else [])])
    else:
        terminal.raw(str(chosen))


def engine() -> None:
    """Print which engine computes attention, and why it was chosen."""
    terminal.show([str(select.engine())])


for _command, _epilog in (
    (see.see, see.EXAMPLES),
    (studio.studio, studio.EXAMPLES),
    (steps.steps, steps.EXAMPLES),
    (lookup.lookup, lookup.EXAMPLES),
    (lessons.scaling, lessons.SCALING_EXAMPLES),
    (lessons.positions, lessons.POSITIONS_EXAMPLES),
    (lessons.block, lessons.BLOCK_EXAMPLES),
    (train.train, train.EXAMPLES),
    (compare.compare, compare.EXAMPLES),
    (check.check, check.EXAMPLES),
    (exercise.exercise, exercise.EXAMPLES),
    (site.site, site.EXAMPLES),
    (examples, LISTING_EXAMPLES),
    (engine, None),
):
    app.command(cls=terminal.Command, epilog=_epilog)(_command)
app.add_typer(heads.app, name="heads")
app.add_typer(models.app, name="models")


def run() -> None:
    """Run the command line with the arguments of this process."""
    terminal.prepare()
    app(prog_name="regard")
