"""Positional encodings as tables: what each position adds to a vector, or by which angles it rotates it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard import validate
from regard.arrays import numpy_of
from regard.layers import Learned, Rotary
from regard.layers.positions import sinusoidal
from regard.tables import Column, Table

Floats = NDArray[np.float64]
Kind = Literal["sinusoidal", "learned", "rotary"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LONGEST, WIDEST = 4096, 4096
USES: dict[Kind, str] = {
    "sinusoidal": "Added to the vector of the word. Two positions at the same distance are equally similar.",
    "learned": "Added to the vector of the word: one learned vector per position, and none beyond the last.",
    "rotary": "Turns pairs of numbers of q and k: their score depends on the distance of the positions alone.",
}


@dataclass(frozen=True, eq=False, repr=False)
class PositionLesson:
    """The encoding of the first positions.

    encoding    (position, width): what is added to the vectors; of rotary positions the angles (position, pair),
                in radians
    similarity  (position, position): the cosine of two positions' encodings; of rotary positions the score of equal
                queries and keys of length 1 after rotation
    """

    kind: Kind
    encoding: Floats
    similarity: Floats
    base: float
    source: str  # formula, or where the numbers come from

    @property
    def length(self) -> int:
        return len(self.encoding)

    def table(self) -> Table:
        """One row per position; angles in degrees."""
        name, digits, shown = "encoding", 2, self.encoding
        if self.kind == "rotary":
            name, digits, shown = "angle of each pair, in degrees", 1, np.degrees(self.encoding)
        columns = Column("position", "number", 0), Column(name, "vector", digits)
        return Table(self.title, columns, tuple(enumerate(shown)), self.notes, source=self.source)

    @property
    def title(self) -> str:
        return f"{self.kind.capitalize()} positions"

    @property
    def notes(self) -> tuple[str, ...]:
        """The formula, what is done with it, and what it is good for."""
        return self.source, USES[self.kind]

    def __repr__(self) -> str:
        return f"PositionLesson({self.kind}, {self.length} positions × {self.encoding.shape[1]})"

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        from regard.output import figure, notebook_html

        return notebook_html(figure.positions(self), self.table())


def position_lesson(
    kind: Kind = "sinusoidal", *, length: int = 32, width: int = 16, base: float = 10000.0, weights: Any = None,
    source: str = "given", seed: int = 0,
) -> PositionLesson:  # fmt: skip
    """The positional encoding of so many positions and numbers.

    base      of the wavelengths of sinusoidal and rotary positions
    weights   learned positions, (position, width), such as a model's; random ones from `seed` by default
    source    where these come from

    >>> lesson = position_lesson("sinusoidal", length=2, width=4)
    >>> lesson.encoding.round(3)
    array([[0.   , 1.   , 0.   , 1.   ],
           [0.841, 0.54 , 0.01 , 1.   ]])
    >>> position_lesson("rotary", length=3, width=4).table().printed((2, [114.6, 1.1]))
    ('2', '114.6 1.1')
    """
    validate.choice("kind", kind, KINDS)
    length = validate.integer("length", length, 1, LONGEST)
    width = validate.integer("width", width, 1, WIDEST)
    base = validate.number("base", base, above=0)
    if kind == "sinusoidal":
        encoding = sinusoidal(length, width, base)
        formula = f"PE(p, 2i) = sin(p / {base:g}^(2i/{width})), PE(p, 2i+1) = cos(p / {base:g}^(2i/{width}))."
        return PositionLesson(kind, encoding, _cosines(encoding), base, formula)
    if kind == "learned":
        source = f"One vector per position: {source}."
        if weights is None:
            weights = Learned.seeded(length, width, seed=seed, dtype=np.float64).weight
            source = f"One vector per position, before training: random numbers from seed {seed}."
        learned = np.asarray(numpy_of(weights), np.float64)[:length]
        return PositionLesson(kind, learned[:, :width], _cosines(learned), base, source)
    layer = Rotary(width, base)
    cosines, sines = layer.cosines_and_sines(0, length, np.zeros((1, width)))
    angles = np.arange(length)[:, None] * base ** (-np.arange(0, width, 2) / width)
    turned = np.asarray(layer.turned(np.full((1, length, width), width**-0.5), (cosines, sines)))[0]
    formula = f"Pair i of q and k is turned by p · {base:g}^(−2i/{width}) at position p, i = 0 to {width // 2 - 1}."
    return PositionLesson(kind, angles, turned @ turned.T, base, formula)


def _cosines(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1.0)
    cosines: Floats = unit @ unit.T
    return cosines
