"""Tokenisers: text to tokens and back, with readable token texts, spans in the text, and word boundaries."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard.errors import RegardError, missing_package
from regard.models.errors import broken
from regard.models.regular_file import content_of
from regard.reading.reader import Encoded

# byte-level BPE, WordPiece with ##, whole words, SentencePiece with ▁
Spelling = Literal["bytes", "pieces", "words", "spaces"]
VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}  # how tokens of white space are shown
PROBE = "A word, ünknown ones 漢😀, and 12."
LARGEST = 256 * 2**20  # bytes of a tokenizer.json


@dataclass(frozen=True, eq=False)
class Tokeniser:
    """A tokeniser of the `tokenizers` library, with readable token texts.

    A token starts a new word unless it is `joined`; punctuation is a word of its own.
    """

    engine: Any = field(repr=False)  # tokenizers.Tokenizer, without padding and truncation
    spelling: Spelling
    specials: frozenset[int] = field(repr=False)
    path: Path  # the file it was read from

    @property
    def size(self) -> int:
        """The size of the vocabulary: the largest token id plus 1."""
        with trusted(self.path):
            return max(self.engine.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str, *, special: bool = True) -> Encoded:
        """The tokens of a text, with the special tokens that the model adds unless `special` is False."""
        with trusted(self.path):
            return self._placed(text, self.engine.encode(_without_surrogates(text), add_special_tokens=special))

    def encode_many(self, texts: Sequence[str], *, special: bool = True) -> list[Encoded]:
        """The tokens of several texts; faster than one by one."""
        with trusted(self.path):
            encodings = self.engine.encode_batch(
                [_without_surrogates(text) for text in texts], add_special_tokens=special
            )
            return [self._placed(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Tokens as text; special ones are left out unless `special` is True."""
        with trusted(self.path):
            return str(self.engine.decode([int(number) for number in ids], skip_special_tokens=not special))

    def spell(self, ids: Sequence[int]) -> tuple[str, Encoded]:
        """The text of generated tokens, and the tokens with their spans in it.

        Encoding that text may give other tokens: a model need not generate those that the tokeniser would choose.
        """
        ids = [int(number) for number in ids]
        tokens = [self.engine.id_to_token(number) or "" for number in ids]
        content, stops = bytearray(), []
        for index, (number, token) in enumerate(zip(ids, tokens, strict=True)):
            as_is = number in self.specials and self.spelling in ("bytes", "spaces")
            content += token.encode() if as_is else self._bytes(token, first=index == 0)
            stops.append(len(content))
        text, characters = _text_and_places(bytes(content))
        starts = [0, *stops][: len(stops)]
        spans = [
            (characters[start], characters[stop - 1] + 1 if stop > start else characters[start])
            for start, stop in zip(starts, stops, strict=True)
        ]
        return text, self._encoded(text, ids, tokens, spans, [False] * len(ids))

    def beginning(self, text: str, longest: int) -> str:
        """The text, cut after the last word with which it has at most `longest` tokens."""
        encoded = self.encode(text)
        keep = longest - sum(encoded.special)
        while len(encoded) > longest:
            ends = [end for (_, end), special in zip(encoded.spans, encoded.special, strict=True) if not special]
            if keep < 1 or len(ends) < 2:
                return ""  # one character has more tokens than that
            cut = text[: ends[min(keep, len(ends) - 1) - 1]]
            words = re.match(r"(.*\S)\s+\S*$", cut, re.DOTALL)  # a part of a word may have other tokens
            text = cut if words is None or text[len(cut) : len(cut) + 1].isspace() else words[1]
            encoded, keep = self.encode(text), keep - 1
        return text

    def token(self, number: int) -> str:
        """A token as in the vocabulary: ##ing, Ġthe."""
        return str(self.engine.id_to_token(int(number)) or "")

    def piece(self, number: int) -> tuple[str, bool]:
        """A token alone in readable form, and whether it begins a word: ("the", True), ("ing", False)."""
        token = self.token(number)
        if number in self.specials:
            return token, True
        if self.spelling == "pieces":
            return token.removeprefix("##"), not token.startswith("##")
        text = self._bytes(token, first=False).decode("utf-8", "replace")
        bare = text.removeprefix(" ")
        return "".join(VISIBLE.get(letter, letter) for letter in bare) or VISIBLE[" "], bare != text

    def number(self, token: str) -> int | None:
        """The id of a token of the vocabulary, or None."""
        token_id: int | None = self.engine.token_to_id(token)
        return token_id

    def _placed(self, text: str, encoding: Any) -> Encoded:
        added = [bool(mask) for mask in encoding.special_tokens_mask]
        return self._encoded(text, encoding.ids, encoding.tokens, encoding.offsets, added)

    def _encoded(
        self, text: str, ids: list[int], tokens: list[str], offsets: Sequence[tuple[int, int]], added: list[bool]
    ) -> Encoded:
        special = [mask or number in self.specials for mask, number in zip(added, ids, strict=True)]
        spans = [_stripped(text, *offset) for offset in offsets]
        unknown = getattr(self.engine.model, "unk_token", None)
        texts = [
            token if named or token == unknown else self._text(token, text, span)
            for token, span, named in zip(tokens, spans, special, strict=True)
        ]
        joined = [
            index > 0 and not special[index] and not special[index - 1] and self._joined(text, tokens, spans, index)
            for index in range(len(ids))
        ]
        return Encoded(ids, texts, spans, special, joined)

    def _joined(self, text: str, tokens: list[str], spans: list[tuple[int, int]], place: int) -> bool:
        """Whether a token continues the word before it."""
        if self.spelling == "pieces":
            return tokens[place].startswith("##")
        (before_start, before), (start, stop) = spans[place - 1], spans[place]
        if start < before or (start, stop) == (before_start, before):  # pieces of one character
            return True
        if start > before or start == stop:
            return False
        return _in_words(text[before - 1 : before]) and _in_words(text[start : start + 1])

    def _text(self, token: str, text: str, span: tuple[int, int]) -> str:
        """The readable form: the text as typed, or hexadecimal bytes for a part of a character."""
        if self.spelling != "pieces":
            content = self._bytes(token, first=False)
            try:
                content.decode("utf-8")
            except UnicodeDecodeError:
                return f"<{content.lstrip(b' ').hex(' ').upper()}>"
        typed = text[slice(*span)]
        if self.spelling == "spaces" and _is_byte(
            token
        ):  # its span in the library covers all unknown characters around it
            typed = chr(int(token[3:5], 16))
        if typed and not typed.isspace():
            return typed
        return "".join(VISIBLE.get(letter, letter) for letter in typed) or token

    def _bytes(self, token: str, first: bool) -> bytes:
        """The bytes of a token in a text."""
        if self.spelling == "bytes":
            return b"".join(BYTES.get(letter, letter.encode()) for letter in token)
        if self.spelling == "pieces":
            return token[2:].encode() if token.startswith("##") else (b"" if first else b" ") + token.encode()
        if self.spelling == "words":
            return (b"" if first else b" ") + token.encode()
        if _is_byte(token):
            return bytes([int(token[3:5], 16)])
        return token.replace("▁", " ").encode()


def from_file(path: Path) -> Tokeniser:
    """The tokeniser in a tokenizer.json."""
    tokenizers = library()
    content = content_of(path, LARGEST, "the tokeniser of the model", "The folder of a model needs a tokenizer.json.")
    with trusted(path):
        return of(tokenizers.Tokenizer.from_str(content.decode("utf-8")), path)


def of(engine: Any, path: Path) -> Tokeniser:
    """A tokeniser of the library, with its padding and truncation switched off."""
    engine.no_padding()
    engine.no_truncation()
    unknown = getattr(engine.model, "unk_token", None)
    added = engine.get_added_tokens_decoder()
    specials = frozenset(number for number, token in added.items() if token.special and token.content != unknown)
    made = Tokeniser(engine, _spelling(engine), specials, path)
    made.encode(PROBE)  # some errors appear only in use
    return made


@contextmanager
def trusted(path: Path) -> Iterator[None]:
    """Errors of the library as a `BrokenFile`; its panics are not subclasses of Exception."""
    try:
        yield
    except RegardError:
        raise
    except BaseException as problem:
        if isinstance(problem, Exception) or type(problem).__name__ == "PanicException":
            why = " ".join(str(problem)[:200].split())
            raise broken(path, f"its tokeniser fails ({why})") from None
        raise


def library() -> Any:
    """The `tokenizers` library."""
    try:
        import tokenizers
    except ImportError:
        raise missing_package("Reading text", "tokenizers") from None
    return tokenizers


def _spelling(engine: Any) -> Spelling:
    if type(engine.model).__name__ == "WordPiece":
        return "pieces"
    if type(engine.model).__name__ == "WordLevel" and engine.decoder is None:  # the library puts spaces between tokens
        return "words"
    # The state of the decoder alone: to_str() of a tokeniser allocates memory in proportion to its largest token id.
    described = b"" if engine.decoder is None else engine.decoder.__getstate__()
    return "bytes" if b"ByteLevel" in described else "spaces"


def _is_byte(token: str) -> bool:
    """Whether a token is one byte, such as <0x0A>."""
    return re.fullmatch("<0x[0-9A-Fa-f]{2}>", token) is not None


def _bytes_of_letters() -> dict[str, bytes]:
    """GPT-2's characters for bytes: printable bytes are themselves, the others characters from 256 on, in order."""
    themselves = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in themselves]
    letters = {chr(byte): bytes([byte]) for byte in themselves}
    return letters | {chr(256 + index): bytes([byte]) for index, byte in enumerate(others)}


BYTES = _bytes_of_letters()
SURROGATES = 0xDC00


def _count_bytes(problem: UnicodeError) -> tuple[str, int]:
    """An invalid run of n bytes as the surrogate U+DC00 + n, which valid UTF-8 never gives."""
    assert isinstance(problem, UnicodeDecodeError)
    return chr(SURROGATES + problem.end - problem.start), problem.end


codecs.register_error("count_bytes", _count_bytes)


def _text_and_places(content: bytes) -> tuple[str, list[int]]:
    """Bytes as text, and the index of the character that each byte belongs to, with the end.

    >>> _text_and_places("é".encode() + bytes([0xED, 0xA0]))
    ('é��', [0, 0, 1, 2, 3])
    """
    letters = content.decode("utf-8", "count_bytes")
    counts = [
        ord(letter) - SURROGATES if "\udc00" <= letter <= "\udcff" else len(letter.encode()) for letter in letters
    ]
    indices = [index for index, count in enumerate(counts) for _ in range(count)]
    return content.decode("utf-8", "replace"), [*indices, len(letters)]


def _stripped(text: str, start: int, stop: int) -> tuple[int, int]:
    """The span without leading white space; a span of white space only is unchanged."""
    typed = text[start:stop]
    return (start, stop) if not typed or typed.isspace() else (stop - len(typed.lstrip()), stop)


def _in_words(letter: str) -> bool:
    """Letters, digits and combining marks."""
    return letter.isalnum() or (bool(letter) and unicodedata.category(letter)[0] == "M")


def _without_surrogates(text: str) -> str:
    """Text with lone surrogates, which UTF-8 cannot encode, replaced; the length is unchanged."""
    try:
        text.encode("utf-8")  # at least 50 times as fast as a look at each character
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text
