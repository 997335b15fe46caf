"""How commands are declared: by functions, whose docstrings have their help, that of their options, and examples; and
what `regard` does with their errors.

>>> def greet(word: str, times: Annotated[int, typer.Option(min=1)] = 1) -> None:
...     '''Say hello.
...
...     word WORD  The person to greet.
...     times      How often.
...
...     Examples:
...       regard greet Ada
...     '''
>>> parts_of(greet)
('Say hello.', {'word': ('WORD', 'The person to greet.'), 'times': ('', 'How often.')}, '  regard greet Ada')
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from copy import copy
from functools import wraps
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperGroup

from regard.cli.exit_codes import Command, Group
from regard.cli.outputs import Output

_PARAMETER = re.compile(r"^(\w+)(?: (\S.*?))? {2,}(\S.*(?:\n {4,}\S.*)*)", re.MULTILINE)

Function = Callable[..., None]


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
