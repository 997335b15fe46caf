"""Tasks for whole models: sentences to read, to embed, to go on with. The same words for every peer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WORDS = """the kids were scared of lions so they left right away keys on table belong to sarah and she looks for them
every morning in old kitchen while cat sat action gets results people love apple phones jane visits africa because her
brother lives there during long dry summer when river becomes small""".split()  # noqa: SIM905 (words, as they are read)
WRITTEN = 64  # tokens that are generated


@dataclass(frozen=True)
class ModelCase:
    name: str
    model: str  # in the catalogue
    kind: str  # "read", "embed" or "write"
    texts: int
    words: tuple[int, int]  # of each text, from and up to
    tokens: int | None = None  # where a text is cut to so many

    def sentences(self) -> list[str]:
        random = np.random.default_rng(7)
        counts = random.integers(self.words[0], self.words[1] + 1, self.texts)
        return [" ".join(random.choice(WORDS, int(count))).capitalize() + "." for count in counts]


def cases(quick: bool, long: bool = False) -> list[ModelCase]:
    few = [
        ModelCase("1 sentence of 16 words", "minilm", "read", 1, (16, 16)),
        ModelCase("64 sentences of 32 words", "minilm", "read", 64, (32, 32)),
        ModelCase("4 texts of 512 tokens", "minilm", "read", 4, (600, 600), 512),
        ModelCase("embedding 1,000 sentences", "minilm", "embed", 1000, (5, 40)),
        ModelCase(f"writing {WRITTEN} tokens", "smollm2", "write", 1, (16, 16)),
    ]
    if quick:
        return [*few[:3], ModelCase("embedding 200 sentences", "minilm", "embed", 200, (5, 40)), few[4]]
    return [
        *few,
        ModelCase("2,048 tokens", "smollm2", "read", 1, (2300, 2300), 2048),
        *([ModelCase("8,192 tokens", "smollm2", "read", 1, (9000, 9000), 8192)] if long else []),
    ]
