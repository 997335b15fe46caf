"""Small readings, and their weights by NumPy alone."""

import numpy as np

from regard.attention import Attention
from regard.masks import causal
from regard.reading import Reading, Token
from regard.viewer import frames
from regard.viewer.queries import Answers, answers_for

from ..dense import dense_weights

CAT_SAT = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]]
LAYERS, HEADS, KEY_HEADS, COUNT, SIZE, VALUE_SIZE = 2, 6, 3, 11, 5, 7

# [CLS] Keep·ing watch over the lion·ess·es now . [SEP]
TEXTS = ("[CLS]", "keep", "ing", "watch", "over", "the", "lion", "ess", "es", ".", "[SEP]")
JOINED = (2, 7, 8)
SPECIAL = (0, 10)
WORDS = ((0, 1), (1, 3), (3, 4), (4, 5), (5, 6), (6, 9), (9, 10), (10, 11))


def tokens():
    return [
        Token(text, place, 0, 0, special=place in SPECIAL, joined=place in JOINED) for place, text in enumerate(TEXTS)
    ]


def arrays(seed=0, count=COUNT):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(LAYERS, HEADS, count, SIZE))
    keys = rng.normal(size=(LAYERS, KEY_HEADS, count, SIZE))
    values = rng.normal(size=(LAYERS, KEY_HEADS, count, VALUE_SIZE))
    return queries, keys, values


def reading(mask=None, count=COUNT, words=None, **options):
    queries, keys, values = arrays(count=count)
    layers = [Attention(q, k, mask=mask, **options) for q, k in zip(queries, keys, strict=True)]
    given = tokens() if words is None and count == COUNT else words
    return Reading.of(layers, list(values), words=given, text="Keeping watch over the lionesses.", model="random")


def weights(is_causal=False, count=COUNT):
    """(layer, head, query, key), by the formula."""
    queries, keys, _ = arrays(count=count)
    return dense_weights(queries, keys, seen=np.tri(count, dtype=bool) if is_causal else True)


def asked(subject, kind, **parameters):
    answers = subject if isinstance(subject, Answers) else answers_for(subject)
    return frames.unpack(answers.answer(kind, parameters))


def causal_reading():
    return reading(mask=causal())
