"""`TextSpan`: which tokens of a run belong to which text, and the tokens that an edit selects in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.reading.edit import Edit, Selector
from regard.reading.words import Word
from regard.trace.labels import place_of

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TextSpan:
    """One text of a run. Several texts may be packed into one row of the batch.

    A generated token belongs to the text as well, but words and negative indices are those of the prompt.
    """

    index: int  # among all texts of the run
    row: int  # of the batch
    start: int  # of its first token among those of the row: padding, or other texts, come before
    length: int  # tokens of the prompt
    words: Callable[[], Sequence[Word]]  # raises where the words are not known

    def tokens(self, name: str, chosen: Selector) -> Indices | None:
        """The selected tokens among those of the row; None: all."""
        if chosen is None:
            return None
        indices: list[int] = []
        for item in chosen:
            if isinstance(item, str):
                words = self.words()
                word = words[place_of(name, item, [word.text for word in words])]
                indices += range(word.first, word.last)
            else:
                indices += item if isinstance(item, range) else [item]
        if indices and min(indices) < -self.length:
            raise errors.OutOfRange(
                f"`{name}` names token {min(indices)}; there {errors.there_are(self.length, 'token')}, counted from 0."
            )
        return self.start + np.unique([token + self.length if token < 0 else token for token in indices]).astype(
            np.int64
        )


def check_tokens(parts: Sequence[Edit], texts: Sequence[TextSpan]) -> None:
    """Refuse single tokens after the end of every text, where none are generated."""
    longest = max((text.length for text in texts), default=0)
    for part in parts:
        for name, chosen in part.selectors():
            for token in chosen or ():
                if isinstance(token, int) and token >= longest:
                    raise errors.OutOfRange(
                        f"`{name}` names token {token}; there {errors.there_are(longest, 'token')}, counted from 0."
                    )
