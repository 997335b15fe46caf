"""Treebanks in CoNLL-U: sentences with their words, heads and relations (universaldependencies.org/format.html).

A malformed sentence is skipped and reported by its line; the others are read.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import OptionError, count, reason_of

COLUMNS = 10
LONGEST_LINE = 1 << 20  # bytes: a longer line is not a word
POSITION = re.compile(r"(\d{1,7})(?:([.-])(\d{1,7}))?", re.ASCII)  # a word, a range of words, an empty node
MOST_ANTECEDENTS = 64  # of a pronoun, the nearest: no sentence that people write has more


class TreeWord(NamedTuple):
    """A syntactic word."""

    form: str
    lemma: str
    pos: str  # universal part of speech
    head: int  # the word it depends on, counted from 0; −1 for the root
    relation: str
    start: int  # where it stands in the sentence's text, in characters; start = stop where that is not known
    stop: int
    refers: int = -1  # the antecedent of a relative pronoun, where the file says so
    antecedents: tuple[int, ...] = ()  # of a pronoun: the nearest earlier mentions of its entity, by head words


class Sentence(NamedTuple):
    """A sentence and the line it begins at."""

    text: str
    words: tuple[TreeWord, ...]
    line: int


class Skipped(NamedTuple):
    """A sentence that was not read: the line of the problem, and what it is."""

    line: int
    why: str


@dataclass(frozen=True)
class Treebank:
    """The sentences of a file, and those that were skipped."""

    name: str
    sentences: tuple[Sentence, ...]
    skipped: tuple[Skipped, ...]


def read(path: str | os.PathLike[str]) -> Treebank:
    """Read a CoNLL-U file."""
    try:
        with Path(path).open("rb") as file:
            return parse(_lines(file), Path(path).name)
    except (OSError, ValueError) as problem:
        if isinstance(problem, OptionError):
            raise
        raise OptionError(f"The treebank {os.fspath(path)!r} cannot be read: {reason_of(problem)}.") from None


def _lines(file: Iterable[bytes]) -> Iterator[bytes]:
    for line in file:
        yield line[: LONGEST_LINE + 1].rstrip(b"\r\n")


def parse(lines: Iterable[bytes], name: str = "") -> Treebank:
    r"""Read the lines of a CoNLL-U file.

    >>> rows = ["1\tBirds\tbird\tNOUN\t_\t_\t2\tnsubj\t_\t_", "2\tsing\tsing\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No"]
    >>> found = parse([*(row.encode() for row in rows), b"", b"1\tbroken"])
    >>> found.sentences[0].text, found.skipped
    ('Birds sing', (Skipped(line=4, why='it has 2 columns, expected 10'),))
    """
    sentences: list[Sentence] = []
    skipped: list[Skipped] = []
    block: list[tuple[int, bytes]] = []

    def finish() -> None:
        rows = [(number, row) for number, row in block if not row.startswith(b"#")]
        if rows:
            try:
                sentences.append(_sentence(rows))
            except _Malformed as problem:
                skipped.append(problem.skipped)
        block.clear()

    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            block.append((number, line))
        else:
            finish()
    finish()
    return Treebank(name, tuple(sentences), tuple(skipped))


class _Malformed(Exception):
    def __init__(self, line: int, why: str) -> None:
        self.skipped = Skipped(line, why)


def _sentence(rows: list[tuple[int, bytes]]) -> Sentence:
    """The sentence of some lines without comments."""
    words: list[tuple[int, list[str]]] = []
    ranges: dict[int, tuple[int, str, bool]] = {}  # first word → last word, form, whether a blank follows
    for number, row in rows:
        columns = _columns(number, row)
        position = POSITION.fullmatch(columns[0])
        if position is None:
            raise _Malformed(number, f"the position of a word is {columns[0][:20]!r}, expected 7, 7-8 or 7.1")
        first, sign, last = int(position[1]), position[2], int(position[3] or 0)
        if sign == ".":  # an empty node: part of the enhanced graph only
            continue
        if sign == "-":
            if first != len(words) + 1 or last < first:
                raise _Malformed(number, f"the range {columns[0]} does not start at the next word")
            ranges[first] = last, columns[1], not _no_space(columns[9])
            continue
        if first != len(words) + 1:
            raise _Malformed(number, f"word {first} stands where word {len(words) + 1} was expected")
        words.append((number, columns))
    if not words:
        raise _Malformed(rows[0][0], "it has no words")
    if any(last > len(words) for last, _, _ in ranges.values()):
        raise _Malformed(rows[0][0], "a multiword token reaches beyond the last word")
    heads = [_head(number, columns[6], index, len(words)) for index, (number, columns) in enumerate(words)]
    _check_tree(heads, [number for number, _ in words])
    text, spans = _text([columns for _, columns in words], ranges)
    before = _antecedents([columns for _, columns in words], heads)
    relations = tuple(
        TreeWord(columns[1], columns[2], columns[3], head, columns[7], *span, _refers(columns[8], len(words)), earlier)
        for (_, columns), head, span, earlier in zip(words, heads, spans, before, strict=True)
    )
    return Sentence(text, relations, rows[0][0])


def _columns(number: int, row: bytes) -> list[str]:
    if len(row) > LONGEST_LINE:
        raise _Malformed(number, f"the line is longer than {LONGEST_LINE:,} bytes")
    try:
        columns = row.decode("utf-8").split("\t")
    except UnicodeDecodeError as problem:
        raise _Malformed(number, f"it is not UTF-8: byte {problem.start} of the line is invalid") from None
    if len(columns) != COLUMNS:
        raise _Malformed(number, f"it has {count(len(columns), 'column')}, expected {COLUMNS}")
    if not columns[1].strip():
        raise _Malformed(number, "a word has no form")
    return columns


def _head(number: int, text: str, place: int, count: int) -> int:
    if not re.fullmatch(r"\d{1,7}", text, re.ASCII):
        raise _Malformed(number, f"the head is {text[:20]!r}, expected an integer")
    head = int(text)
    if head > count:
        raise _Malformed(number, f"the head is {head}, the sentence has {count} words")
    if head == place + 1:
        raise _Malformed(number, f"word {head} is its own head")
    return head - 1


def _check_tree(heads: list[int], lines: list[int]) -> None:
    """Every word must lead to the root."""
    rooted: set[int] = {-1}
    for start in range(len(heads)):
        path: set[int] = set()
        word = start
        while word not in rooted:
            if word in path:
                raise _Malformed(lines[word], f"word {word + 1} depends on itself through a cycle")
            path.add(word)
            word = heads[word]
        rooted |= path


def _text(words: list[list[str]], ranges: dict[int, tuple[int, str, bool]]) -> tuple[str, list[tuple[int, int]]]:
    """The text of a sentence, and where its words stand; words of a contraction that is respelled have no place."""
    text = ""
    spans: list[tuple[int, int]] = []
    position = 0
    while position < len(words):
        start = len(text)
        if position + 1 in ranges:
            last, form, blank = ranges[position + 1]
            forms = [columns[1] for columns in words[position:last]]
            text += form
            if "".join(forms).lower() == form.lower():
                for part in forms:
                    spans.append((start, start + len(part)))
                    start += len(part)
            else:
                spans += [(start, len(text)), *[(len(text), len(text))] * (len(forms) - 1)]
            position = last
        else:
            columns = words[position]
            text += columns[1]
            spans.append((start, len(text)))
            blank = not _no_space(columns[9])
            position += 1
        text += " " if blank and position < len(words) else ""
    return text, spans


def _no_space(misc: str) -> bool:
    return "SpaceAfter=No" in misc.split("|")


def _antecedents(words: list[list[str]], heads: list[int]) -> list[tuple[int, ...]]:
    """For each pronoun that is a mention of its own, the head words of earlier mentions of the same entity.

    Mentions are brackets in MISC, as in GUM and CorefUD: Entity=(e1-person … e1). Those that cross a sentence, and the
    parts of discontinuous ones, are left out.
    """
    parents: list[tuple[int, ...]] = [()] * len(words)
    opened: dict[str, list[int]] = {}  # where the mentions of an entity begin that have not ended
    mentions: list[tuple[str, int, int]] = []  # entity, first and last word, in the order of their ends
    for index, columns in enumerate(words):
        stated = [part.removeprefix("Entity=") for part in columns[9].split("|") if part.startswith("Entity=")]
        for entity, opens, closes in _brackets(stated[0]) if stated else ():
            if opens:
                opened.setdefault(entity, []).append(index)
            if closes and opened.get(entity):
                mentions.append((entity, opened[entity].pop(), index))
    tree = np.array(heads)
    ends: dict[str, list[int]] = {}
    tops: dict[str, list[int]] = {}
    for entity, first, last in mentions:
        ends.setdefault(entity, []).append(last)
        tops.setdefault(entity, []).append(_top(tree, first, last))
    for entity, first, last in mentions:
        if first == last and words[first][3] == "PRON":
            before = bisect_left(ends[entity], first)
            parents[first] = tuple(sorted({*tops[entity][max(0, before - MOST_ANTECEDENTS) : before]}))
    return parents


def _brackets(entities: str) -> Iterator[tuple[str, bool, bool]]:
    """The entities of a word, and whether a mention opens and closes there; parts such as e1[1/2] are left out.

    >>> list(_brackets("(e2-person-new(e1-animal)e3)"))
    [('e2', True, False), ('e1', True, True), ('e3', False, True)]
    """
    pieces = re.split(r"([()])", entities)  # text and brackets by turns
    texts, signs = pieces[::2], ["", *pieces[1::2], ""]
    for text, before, after in zip(texts, signs, signs[1:], strict=False):
        entity = text.partition("-")[0]
        opens, closes = before == "(", after == ")"
        if entity and (opens or closes) and "[" not in text and "]" not in text:
            yield entity, opens, closes


def _top(heads: NDArray[np.int64], first: int, last: int) -> int:
    """The first word of a span whose head is outside it."""
    inside = heads[first : last + 1]
    return first + int(((inside < first) | (inside > last)).argmax())


def _refers(enhanced: str, count: int) -> int:
    """The antecedent of a relative pronoun: the relation *ref* of the enhanced graph."""
    reference = re.search(r"(?:^|\|)(\d{1,7}):ref(?:\||$)", enhanced, re.ASCII)
    return int(reference[1]) - 1 if reference and 1 <= int(reference[1]) <= count else -1
