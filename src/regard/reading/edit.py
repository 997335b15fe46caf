"""`Edit`: what an intervention is to the models that take it; `regard.edits` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

from regard import errors

Head = tuple[int, int]  # layer, head
Selector = tuple[int | str | range, ...] | None  # tokens by index, word or range; None: all


class Edit:
    """One change of what a model computes. Edits combine with `&`; later ones see what earlier ones did.

    >>> from regard.edits import scale, silence
    >>> (silence((5, 2)) & scale((3, 1), factor=0.5)).parts
    (silence((5, 2)), scale((3, 1), factor=0.5))
    """

    stack: str | None

    @property
    def parts(self) -> tuple[Edit, ...]:
        """The single edits."""
        return (self,)

    @property
    def layers(self) -> frozenset[int] | None:
        """The layers that are changed; None: all."""
        raise NotImplementedError

    def touches(self, layer: int) -> bool:
        """Whether a layer is changed."""
        return self.layers is None or layer in self.layers

    def selectors(self) -> Iterator[tuple[str, Selector]]:
        """The arguments that select tokens, by name."""
        yield from ()

    def check(self, heads: Sequence[int], model: str) -> None:
        """Refuse layers and heads that a model with so many heads per layer does not have."""
        for layer in sorted(self.layers or ()):
            if layer >= len(heads):
                raise errors.OutOfRange(
                    f"{self!r} names layer {layer}; {model} has {errors.count(len(heads), 'layer')}, counted from 0."
                )
        for layer, head in getattr(self, "heads", None) or ():
            if head >= heads[layer]:
                raise errors.OutOfRange(
                    f"{self!r} names head {head} of layer {layer}; {model} has "
                    f"{errors.count(heads[layer], 'head')} there, counted from 0."
                )

    def __and__(self, other: Any) -> Edits:
        return Edits((*self.parts, *edits_of(other)))


@dataclass(frozen=True)
class Edits(Edit):
    """Several edits, applied in order."""

    several: tuple[Edit, ...]

    @property
    def parts(self) -> tuple[Edit, ...]:
        return self.several

    @property
    def layers(self) -> frozenset[int] | None:
        layers: set[int] = set()
        for part in self.several:
            if part.layers is None:
                return None
            layers |= part.layers
        return frozenset(layers)

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.several))


def edits_of(given: Any) -> tuple[Edit, ...]:
    """The single edits of an edit, of a list of them, or of None.

    >>> from regard.edits import silence
    >>> edits_of((silence((0, 1)), [silence((1, 1))])), edits_of(None)
    ((silence((0, 1)), silence((1, 1))), ())
    """
    if given is None:
        return ()
    if isinstance(given, Edit):
        return given.parts
    if isinstance(given, (list, tuple)):
        return tuple(part for edit in given for part in edits_of(edit))
    raise errors.option("edit", given, "an edit such as silence((5, 2)), or several of them combined with `&`")


def edited_name(name: str, parts: Sequence[Edit]) -> str:
    """The name of a model with its edits."""
    return name if not parts else f"{name} with {' & '.join(map(repr, parts))}"


EditArgument: TypeAlias = Union[Edit, Sequence["EditArgument"], None]  # noqa: UP007 - a string has no |
