"""The names of the steps, as people write them."""

from __future__ import annotations

import re

from regard.hand_check import wording

PER_KEY = ("score", "scaled", "weight")
AXES = {
    "query": ("query", "size"),
    "key": ("key", "size"),
    "value": ("key", "value size"),
    "score": ("query", "key"),
    "scaled": ("query", "key"),
    "weight": ("query", "key"),
    "weighted_value": ("query", "key", "value size"),
    "output": ("query", "value size"),
}
STEPS = tuple(AXES)
MATRICES = ("W", "W_q", "W_k", "W_v")
SETTINGS = ("words", "divisor", "product", "title")

# The first of each is what messages call it.
SPELLINGS = {
    "words": "words|word|tokens|sentence",
    "title": "title|note|notes|comment",
    "divisor": "divisor|divide by",
    "product": "product|convention",
    "W": "w",
    "W_q": "w q|wq|w^q",
    "W_k": "w k|wk|w^k",
    "W_v": "w v|wv|w^v",
    "embedding": "embeddings|embedding|e|x|vectors",
    "query": "q|query|queries",
    "key": "k|key|keys",
    "value": "v|value|values",
    "score": "scores|score|q×k|qk",
    "scaled": "scaled|scaled score|scaled scores|score/√d k|scores/√d k|score/√dk|score/sqrt(d k)|scores/sqrt(d k)",
    "weight": "weights|weight|softmax|attention weight|attention weights|probability",
    "weighted_value": "weighted values|weighted value|softmax×v|softmaxxv|weight×v|weight×value|weights×v",
    "output": "outputs|output|sum|z|context",
}
MEANT = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings.split("|")}
SAID = {name: spellings.split("|")[0] for name, spellings in SPELLINGS.items()} | {name: name for name in MATRICES}


def step_named(name: str) -> str | None:
    """What is meant by a name, None where that can't be said.

    >>> step_named("Score / √d_k"), step_named("softmax * v"), step_named("Weights"), step_named("cat")
    ('scaled', 'weighted_value', 'weight', None)
    """
    plain = re.sub(r"[\s_-]+", " ", name.casefold()).strip()
    plain = re.sub(r"\s*[×*·⋅]\s*", "×", plain)
    plain = re.sub(r"\s*/\s*", "/", plain)
    return MEANT.get(plain) or MEANT.get(plain.replace(" x ", "x"))


def meant(name: str, source: str) -> str:
    """What is meant by a name, or an error that lists what could be."""
    found = step_named(name)
    if found is None:
        raise wording.unknown_name(source, name, SAID.values())
    return found
