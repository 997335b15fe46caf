"""A studio with a small test model, and a client that sends what a browser sends."""

import threading

import numpy as np
from starlette.testclient import TestClient

from regard.attention import Attention
from regard.masks import causal
from regard.reading import Reading
from regard.studio.auth import Access, Guard
from regard.studio.library import Library
from regard.studio.server import Studio

KEY = "the-key"
HOST = "127.0.0.1:8000"
OWN = f"http://{HOST}"


class Words:
    """Reads a text word by word, with vectors from the words' letters; generates 'la' for every token."""

    writes = True

    def __init__(self):
        self.go_on = threading.Event()
        self.go_on.set()
        self.begun = threading.Event()

    def read(self, text, on_layer=None):
        self.begun.set()
        assert self.go_on.wait(30)
        if on_layer is not None:
            on_layer(1, 1)
        words = text.split() or ["∅"]
        rng = np.random.default_rng(len(words))
        queries, keys, values = rng.normal(size=(3, 2, len(words), 4))
        return Reading.of(Attention(queries, keys, mask=causal()), values, words=words, text=text, model="words")

    def generate(self, prompt, tokens, *, on_token, **sampling):
        for _ in range(tokens):
            self.begun.set()
            assert self.go_on.wait(30)
            on_token(" la")
        return self.read(prompt + " la" * tokens)


def studio(reader=None, **options):
    reader = reader or Words()
    library = Library("words", load=lambda name: reader)
    library.model("words")
    return Studio(library, **options)


def client(made=None, *, signed_in=True, headers=None, access=None, **options):
    made = studio(**options) if made is None else made
    guard = Guard(made.application(), access or Access(KEY))
    found = TestClient(
        guard, base_url=OWN, headers={"Origin": OWN} if headers is None else headers, raise_server_exceptions=False
    )
    if signed_in:
        found.headers["Authorization"] = f"Bearer {KEY}"
    return found
