"""Groups of commands: help in the terminal's encoding, errors as a sentence, and exit codes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from regard.cli import end_at_once, terminal
from regard.errors import RegardError, reason_of, shortened
from regard.output import characters


class Command(TyperCommand):
    """A command whose help spells in ASCII what the terminal's encoding lacks; click would print UTF-8 anyway."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does, but unexpected arguments, mostly a text without quotes, are answered with what to do."""
        ctx.allow_extra_args = True
        extra = super().parse_args(ctx, args)
        if extra and not ctx.resilient_parsing:
            takes_text = any(parameter.name == "text" for parameter in self.params)
            quotes = f' Put a text into quotes, as in {ctx.command_path} "The cat sat".' if takes_text else ""
            ctx.fail(f"Unexpected arguments: {' '.join(extra)}.{quotes}")
        return extra

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
