"""The options of what a command writes: `--out`, `--show`, `--full`, and the layout of figures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer

from regard.cli.outputs import Output
from regard.output.files import FIGURES, USUAL, Format


def show_option(formats: Sequence[Format]) -> Any:
    """`--show`, with the formats that a command writes."""
    names = [str(kind) for kind in formats]

    def parse(name: str) -> Format:
        if name not in names:
            expected = f"{', '.join(names[:-1])} or {names[-1]}"
            raise typer.BadParameter(f"--show is {name!r}; expected {expected}.")
        return Format(name)

    return typer.Option(
        "--show",
        metavar=f"[{'|'.join(names)}]",
        parser=parse,
        help="The format of standard output, or of --out FILE without an ending.",
    )


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
Command = Callable[..., None]


def writes(formats: Sequence[Format] = USUAL, *, full: bool = True) -> Callable[[Command], Command]:
    """A decorator of commands with a parameter `output`: its value is made of the options that are added here.

    formats   those that the command writes; with figures among them, it has the options of figures
    full      whether the command has --full
    """
    options: dict[str, tuple[Any, Any]] = {"show": (Annotated[Format | None, show_option(formats)], None)}
    options |= {"full": (Full, False)} if full else {}
    options |= {"out": (Out, None), **(FIGURE_OPTIONS if FIGURES & set(formats) else {})}

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        parameters = [
            *(parameter for name, parameter in signature.parameters.items() if name != "output"),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                for name, (kind, default) in options.items()
            ),
        ]

        @wraps(command)
        def with_output(**values: Any) -> None:
            chosen = {name: values.pop(name) for name in options}
            command(**values, output=Output.of(**chosen, formats=formats))

        with_output.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        with_output.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return with_output

    return decorate
