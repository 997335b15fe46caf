"""Which head connects a word with its subject, its possessor, its preposition: accuracy over a treebank.

The method of Clark et al. (2019): word pieces are joined (sum of the weights to a word, mean of those from it), sinks
and the word itself are set aside, and a head is right where a word's largest weight is on the right partner. The head
is chosen on one file and scored on another, beside the best fixed offset (also chosen there) and the best head of an
untrained model of the same shape. A causal model sees earlier words only: pairs whose partner comes later are left
out for it and for the offset alike, and `seen` says how many remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.arrays import chunks
from regard.edits.edit import SilenceEdit
from regard.heads.documents import TokenChunk, batches, cut
from regard.heads.observation import observe
from regard.heads.treebank import Sentence, Treebank
from regard.reading.reader import Encoded
from regard.reading.weights import most_attended

if TYPE_CHECKING:
    from regard.heads.statistics import Measurement
    from regard.reading.reader import Reader

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

OFFSETS = tuple(offset for offset in range(-10, 11) if offset)
LEAST_PAIRS = 20  # a relation with fewer pairs in either file is left out
RESAMPLES, SEED = 1000, 0  # of the bootstrap over sentences
BLOCK = 8192  # sentences that are resampled at once

NAMED = {
    "nsubj": "subject", "nsubj:pass": "passive subject", "obj": "object", "iobj": "indirect object",
    "obl:agent": "agent", "nmod:poss": "possessor", "case": "case", "det": "determiner", "aux": "auxiliary",
    "aux:pass": "passive auxiliary", "amod": "adjective", "advmod": "adverb", "compound": "compound",
    "cop": "copula", "mark": "marker", "cc": "conjunction", "conj": "conjunct", "nummod": "number",
    "obl": "oblique", "nmod": "noun modifier", "xcomp": "open complement", "ccomp": "clausal complement",
    "advcl": "adverbial clause", "acl": "clause of a noun", "acl:relcl": "relative clause", "appos": "apposition",
    "flat": "flat name", "compound:prt": "particle", "parataxis": "parataxis", "expl": "expletive",
}  # fmt: skip
GROUPS = {
    "who does what": ("subject", "passive subject", "object", "indirect object", "agent"),
    "whose": ("possessor",),
    "where": ("spatial preposition", "place"),
    "when": ("time",),
    "what refers to what": ("pronoun", "relative pronoun"),
}


def word_set(words: str) -> frozenset[str]:
    """Words separated by blanks."""
    return frozenset(words.split())


SPATIAL = word_set(
    "in on at under over above below behind between beside near inside outside into onto through across around along "
    "beneath underneath against among toward towards within beyond off up down by from to"
)
ADVERBS_OF_TIME = word_set(
    "today yesterday tomorrow tonight now then soon later earlier before after always never often sometimes already "
    "still yet ago recently currently previously once again"
)
TIME_WORDS = ADVERBS_OF_TIME | word_set(
    "early late day night morning afternoon evening week weekend month year decade century hour minute second moment "
    "time monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december spring summer autumn fall winter"
)
PLACE_PREPOSITIONS = SPATIAL - {"by", "from", "to", "up", "down", "off", "through", "against"}


class Pair(NamedTuple):
    """A dependent and its head in one sentence, by a relation."""

    relation: str
    dependent: int
    head: int


def pairs_of(sentence: Sentence) -> Iterator[Pair]:
    """All pairs of a sentence: by the treebank's relations, and by those that people ask for."""
    words = sentence.words
    in_places = {
        word.head for word in words if word.relation == "case" and word.lemma.lower() in PLACE_PREPOSITIONS
    }  # words with such a preposition
    for index, word in enumerate(words):
        if word.refers >= 0:
            yield Pair("relative pronoun", index, word.refers)
        for antecedent in word.antecedents:
            yield Pair("pronoun", index, antecedent)
        if word.head < 0 or word.relation in ("punct", "_", "dep"):
            continue
        yield Pair(NAMED.get(word.relation, word.relation), index, word.head)
        lemma = word.lemma.lower()
        if word.relation == "case" and lemma in SPATIAL:
            yield Pair("spatial preposition", index, word.head)
        in_place = word.relation in ("obl", "nmod") and index in in_places
        is_time = lemma in TIME_WORDS and word.relation.split(":")[0] in ("obl", "advmod", "nmod")
        if in_place and not is_time:
            yield Pair("place", index, word.head)
        if is_time:
            yield Pair("time", index, word.head)


T = TypeVar("T")


def swap_to_head(direction: str, one: T, other: T) -> tuple[T, T]:
    """(query, key) → (dependent, head) and back, for a direction: "to head" or "to dependent"."""
    return (one, other) if direction == "to head" else (other, one)


def group_of(relation: str) -> str:
    """What people would ask to get this relation; "grammar" for all others."""
    return next((group for group, names in GROUPS.items() if relation in names), "grammar")


# What heads predict


@dataclass(frozen=True, eq=False)
class Predictions:
    """The word that every word attends to most, in every head, over a treebank."""

    treebank: Treebank
    sentence: Integers  # (word,): which sentence it belongs to
    first: Integers  # (sentence,): its first word among all words
    partner: NDArray[np.int16]  # (word, layer · head): position in the sentence; −1 where there is none
    seen: Flags  # (word,): whether a head could choose it: it has a token of its own and is not a sink
    causal: bool
    layers: int
    heads: int
    omitted: int  # sentences that are longer than the model reads

    @cached_property
    def hits(self) -> dict[tuple[str, str], RelationHits]:
        """Of every relation and direction ("to head" or "to dependent") that heads could find."""
        collected: dict[tuple[str, str], list[tuple[int, int]]] = {}  # query among all words, right partner
        pairs = Counter[str]()
        for sentence, first in zip(self.treebank.sentences, self.first.tolist(), strict=True):
            for relation, dependent, head in pairs_of(sentence):
                pairs[relation] += 1
                for direction in ("to head", "to dependent"):
                    query, partner = swap_to_head(direction, dependent, head)
                    if self.causal and partner > query:
                        continue
                    if self.seen[first + query] and self.seen[first + partner]:
                        collected.setdefault((relation, direction), []).append((first + query, partner))
        hits = {}
        for key, rows in collected.items():
            word, partner = np.array(sorted(rows), np.int64).T
            queries = np.flatnonzero(np.diff(word, prepend=-1))  # a query with two right partners counts once
            by_offset = (word - self.first[self.sentence[word]])[:, None] + np.array(OFFSETS)
            heads, offsets = (
                np.logical_or.reduceat(choices == partner[:, None], queries, axis=0)
                for choices in (self.partner[word], by_offset)
            )
            hits[key] = RelationHits(self.sentence[word[queries]], heads, offsets, len(word) / pairs[key[0]])
        return hits


class RelationHits(NamedTuple):
    """Which heads, and which fixed offsets, find the right partner of each query of one relation and direction."""

    sentence: Integers  # (query,)
    heads: Flags  # (query, layer · head)
    offsets: Flags  # (query, offset)
    seen: float  # share of the file's pairs that the model could see


class AlignedSentence(NamedTuple):
    """A sentence as a document: the tokens of each word."""

    document: TokenChunk
    edges: Integers  # the first token of each cell, and the end of the last: a cell is a word or a special token
    cell: Integers  # (word,): its cell, −1 without tokens of its own


def align(model: Reader, sentences: Sequence[Sentence]) -> Iterator[AlignedSentence | None]:
    """Sentences as the model reads them; None for those that are too long or empty.

    A causal model gets its begin-of-text token first, where it has one, so that the first word is not the sink.
    """
    start = _begin(model)
    encodings = model.tokeniser.encode_many([sentence.text for sentence in sentences])
    for sentence, encoded in zip(sentences, encodings, strict=True):
        if start is not None:
            ids, texts, spans = [start, *encoded.ids], ["", *encoded.texts], [(0, 0), *encoded.spans]
            encoded = Encoded(ids, texts, spans, [True, *encoded.special], [False, *encoded.joined])
        documents = list(cut(encoded, sentence.text, model.longest, model.causal))
        yield _align_tokens(documents[0], sentence) if len(documents) == 1 else None


def _begin(model: Reader) -> int | None:
    """The token that begins texts of a causal model."""
    number = model.config.get("bos_token_id")
    if not model.causal or model.tokeniser.encode("a").special[0]:
        return None
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    return min(model.ends) if model.ends else None


def _align_tokens(document: TokenChunk, sentence: Sentence) -> AlignedSentence:
    starts = np.array([word.start for word in sentence.words])
    stops = np.array([word.stop for word in sentence.words])
    with_place = np.flatnonzero(stops > starts)
    edges: list[int] = []
    cell = np.full(len(starts), -1, np.int64)
    before = -1
    for token, (start, stop) in enumerate(document.spans):
        after = int(np.searchsorted(starts[with_place], start, side="right"))
        word = int(with_place[max(after - 1, 0)])
        if document.special[token] or not edges or (stop > start and word != before):
            edges.append(token)
            before = -1 if document.special[token] else word
            if not document.special[token] and cell[word] < 0:
                cell[word] = len(edges) - 1
    return AlignedSentence(document, np.array([*edges, len(document)]), cell)


def predictions(
    model: Reader, treebank: Treebank, *, measurement: Measurement | None = None,
    on_batch: Callable[[int, int], None] = lambda _done, _total: None,
) -> Predictions:  # fmt: skip
    """Every head's choice for every word. With a `measurement`, statistics are counted in the same pass.

    on_batch   called with the number of tokens that are done, and of all
    """
    sentences = treebank.sentences
    aligned = list(align(model, sentences)) if sentences else []
    kept = [(number, sentence) for number, sentence in enumerate(aligned) if sentence is not None]
    layers, heads = len(model.block_shapes), model.heads
    lengths = np.array([len(sentence.words) for sentence in sentences], np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
    total = int(lengths.sum())
    partner = np.full((total, layers * heads), -1, np.int16)
    seen = np.zeros(total, bool)
    documents = [sentence.document for _, sentence in kept]
    done, tokens = 0, sum(map(len, documents))
    on_batch(0, tokens)
    for batch in batches(documents):
        words_of: dict[tuple[int, ...], _GroupWords] = {}  # the same for all layers
        for group in observe(model, [documents[index] for index in batch]):
            if measurement is not None:
                measurement.add(group)
            if group.texts.indices not in words_of:
                numbers, of_group = zip(*(kept[batch[index]] for index in group.texts.indices), strict=True)
                words_of[group.texts.indices] = _GroupWords.of(of_group, first[list(numbers)])
                seen[words_of[group.texts.indices].word] = words_of[group.texts.indices].seen
            columns = slice(group.layer * heads, (group.layer + 1) * heads)
            for chosen, weights in group.whole():
                words, partners = words_of[group.texts.indices].choices(chosen, weights)
                partner[words, columns] = partners
        done += sum(len(documents[index]) for index in batch)
        on_batch(done, tokens)
    partner[:, silent_heads(model)] = -1
    sentence = np.repeat(np.arange(len(sentences)), lengths)
    omitted = len(sentences) - len(kept)
    return Predictions(treebank, sentence, first, partner, seen, model.causal, layers, heads, omitted)


def silent_heads(model: Reader) -> Flags:
    """Heads that are silenced or whose rows of W_O are 0, (layer · head,): they choose no word."""
    silent_of: list[Flags] = [
        np.zeros(shape.heads, bool)
        if shape.w_o is None
        else ~np.any(np.reshape(shape.w_o, (len(shape.w_o), shape.heads, -1)), axis=(0, 2))
        for shape in model.block_shapes
    ]
    for part in model.edit.parts if model.edit is not None else ():
        if isinstance(part, SilenceEdit):
            for layer in part.layers:
                silent_of[layer][part.heads_in(layer, len(silent_of[layer]))] = True
    silent: Flags = np.concatenate(silent_of)
    return silent


class _GroupWords(NamedTuple):
    """The words of documents with equally many tokens; a cell is a word or a special token."""

    edges: NDArray[np.int32]  # (document, cell + 1): the first token of each cell
    counts: NDArray[np.int32]  # (document,): cells
    aside: Flags  # (document, cell): sinks
    word_of: NDArray[np.int16]  # (document, cell): position in the sentence, −1 for special tokens
    document: Integers  # (word,): of each word of all documents
    cell: Integers  # (word,): −1 without tokens of its own
    word: Integers  # (word,): among all words of the treebank
    seen: Flags  # (word,): whether a head can choose it

    @classmethod
    def of(cls, sentences: Sequence[AlignedSentence], first: Integers) -> _GroupWords:
        """Of some sentences, and the numbers of their first words."""
        counts = np.array([len(sentence.edges) - 1 for sentence in sentences], np.int32)
        shape = len(sentences), int(counts.max())
        edges = np.zeros((shape[0], shape[1] + 1), np.int32)
        aside, word_of = np.zeros(shape, bool), np.full(shape, -1, np.int16)
        for row, sentence in enumerate(sentences):
            edges[row, : counts[row] + 1] = sentence.edges
            aside[row, : counts[row]] = sentence.document.sinks[sentence.edges[:-1]]
            has = np.flatnonzero(sentence.cell >= 0)
            word_of[row, sentence.cell[has]] = has
        lengths = [len(sentence.cell) for sentence in sentences]
        document = np.repeat(np.arange(len(sentences)), lengths)
        cell = np.concatenate([sentence.cell for sentence in sentences])
        word = np.concatenate([start + np.arange(count) for start, count in zip(first, lengths, strict=True)])
        return cls(edges, counts, aside, word_of, document, cell, word, (cell >= 0) & ~aside[document, cell])

    def choices(self, chosen: slice, weights: NDArray[Any]) -> tuple[Integers, NDArray[np.int16]]:
        """Words of some documents, and the word that each attends to most, (word, head): −1 where there is none."""
        best = most_attended(weights, self.edges[chosen], self.counts[chosen], self.aside[chosen])
        some = np.flatnonzero((self.document >= chosen.start) & (self.document < chosen.stop))
        document = self.document[some]
        cells = best[document - chosen.start, :, self.cell[some]]  # (word, head)
        partners = np.where(cells >= 0, self.word_of[document[:, None], cells], -1)
        partners[self.cell[some] < 0] = -1
        return self.word[some], partners


# Scores


class Interval(NamedTuple):
    """A share with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


class Score(NamedTuple):
    """The best head for a relation in one direction, chosen on one file and scored on another."""

    relation: str
    group: str
    direction: str
    layer: int
    head: int
    accuracy: Interval
    offset: int
    offset_accuracy: Interval
    untrained: Interval | None  # the best head of an untrained model
    gain: Interval  # accuracy minus that of the offset, sentence by sentence
    queries: int  # scored
    seen: float  # share of the file's pairs that the model could see
    choosing: float  # accuracy on the file that it was chosen on
    choosing_gain: float  # there, minus that of the offset

    @property
    def beats_offset(self) -> bool:
        """Whether the whole interval of the gain is above 0."""
        return self.gain.low > 0

    @property
    def is_named(self) -> bool:
        """Whether the head may be named for the relation: it beats the offset, and an untrained model where known."""
        return self.beats_offset and (self.untrained is None or self.accuracy.low > self.untrained.value)


class HeadScore(NamedTuple):
    """A relation, in one direction, that a head finds more often than the best fixed offset does."""

    relation: str
    direction: str
    layer: int
    head: int
    accuracy: Interval
    gain: Interval  # accuracy minus that of the offset, sentence by sentence
    choosing_gain: float  # the same on the file that relations were chosen on


TwoFiles = tuple[Predictions, Predictions]  # on the file that heads are chosen on, and on the one they are scored on


def scores(chosen_on: Predictions, scored_on: Predictions, untrained: TwoFiles | None = None) -> list[Score]:
    """The best head of every relation and direction, ordered by group, relation and accuracy."""
    result: list[Score] = []
    for key in sorted(chosen_on.hits.keys() & scored_on.hits.keys()):
        chosen, scored = chosen_on.hits[key], scored_on.hits[key]
        if min(len(chosen.sentence), len(scored.sentence)) < LEAST_PAIRS:
            continue
        by_head, by_offset = chosen.heads.mean(axis=0), chosen.offsets.mean(axis=0)
        head, offset = int(by_head.argmax()), int(by_offset.argmax())
        of_head, of_offset = scored.heads[:, head].astype(int), scored.offsets[:, offset].astype(int)
        columns = [of_head, of_offset, of_head - of_offset]
        if untrained is not None:
            chosen_0, scored_0 = (predictions.hits[key].heads for predictions in untrained)
            columns.append(scored_0[:, int(chosen_0.mean(axis=0).argmax())])
        intervals = bootstrap(scored.sentence, np.stack(columns, axis=1), len(scored_on.treebank.sentences))
        of_best, of_fixed, gain, *baseline = intervals
        result.append(
            Score(
                key[0], group_of(key[0]), key[1], *divmod(head, scored_on.heads), of_best, OFFSETS[offset],
                of_fixed, baseline[0] if baseline else None, gain, len(scored.sentence), scored.seen,
                float(by_head[head]), float(by_head[head] - by_offset[offset]),
            )
        )  # fmt: skip
    order = [*GROUPS, "grammar"]
    best: dict[str, float] = {}
    for score in result:
        best[score.relation] = max(best.get(score.relation, 0.0), score.choosing)
    return sorted(
        result,
        key=lambda score: (order.index(score.group), -best[score.relation], score.relation, -score.choosing_gain),
    )


def scores_by_head(chosen_on: Predictions, scored_on: Predictions, found: Sequence[Score]) -> list[HeadScore]:
    """What every head finds better than the best fixed offset, on both files; best first for each head.

    A relation of a head must gain on the file to choose on, and the whole interval of its gain on the other file must
    be above 0.
    """
    result = []
    for score in found:
        relation, direction, offset = score.relation, score.direction, OFFSETS.index(score.offset)
        chosen, scored = (predictions.hits[relation, direction] for predictions in (chosen_on, scored_on))
        gains = chosen.heads.mean(axis=0) - chosen.offsets[:, offset].mean()
        heads = np.flatnonzero(gains > 0)
        if not len(heads):
            continue
        of_heads = scored.heads[:, heads].astype(int)
        columns = np.concatenate([of_heads, of_heads - scored.offsets[:, [offset]]], axis=1)
        intervals = bootstrap(scored.sentence, columns, len(scored_on.treebank.sentences))
        for head, accuracy, gain in zip(heads.tolist(), intervals[: len(heads)], intervals[len(heads) :], strict=True):
            if gain.low > 0:
                layer_head = divmod(head, scored_on.heads)
                result.append(HeadScore(relation, direction, *layer_head, accuracy, gain, float(gains[head])))
    return sorted(result, key=lambda score: (score.layer, score.head, -score.choosing_gain, score.relation))


class Change(NamedTuple):
    """A relation before and after heads were silenced: the best head of each model, chosen on one file."""

    before: Score
    after: Score
    change: Interval  # of the accuracy, sentence by sentence


def changes(intact: TwoFiles, silenced: TwoFiles) -> list[Change]:
    """What silencing heads does to the accuracy of every relation, in its better direction before."""
    after = {(score.relation, score.direction): score for score in scores(*silenced)}
    result = []
    for before in best_directions(scores(*intact)):
        key = before.relation, before.direction
        was, now = (
            predictions.hits[key].heads[:, score.layer * predictions.heads + score.head].astype(int)
            for score, predictions in ((before, intact[1]), (after[key], silenced[1]))
        )
        sentence, sentences = intact[1].hits[key].sentence, len(intact[1].treebank.sentences)
        (change,) = bootstrap(sentence, (now - was)[:, None], sentences)
        result.append(Change(before, after[key], change))
    return result


def best_directions(found: Sequence[Score]) -> list[Score]:
    """Of each relation the direction in which the best head gains more over the fixed offset, where it was chosen.

    Of those that are seen often enough: see `usual_directions`.
    """
    best = best_by_relation(usual_directions(found))
    return [score for score in found if best[score.relation] is score]


Scored = TypeVar("Scored", bound=Any)  # a `Score`, or a `Role` of what is known


def best_by_relation(found: Iterable[Scored]) -> dict[str, Scored]:
    """Of each relation the one that gains most over the fixed offset, where it was chosen; of equals the first."""
    best: dict[str, Scored] = {}
    for score in found:
        if score.relation not in best or score.choosing_gain > best[score.relation].choosing_gain:
            best[score.relation] = score
    return best


def usual_directions(found: Sequence[Score]) -> list[Score]:
    """Without the direction in which a causal model sees few pairs: less than half of those in the other."""
    most: dict[str, float] = {}
    for score in found:
        most[score.relation] = max(most.get(score.relation, 0.0), score.seen)
    return [score for score in found if 2 * score.seen >= most[score.relation]]


def bootstrap(sentence: Integers, values: NDArray[Any], sentences: int) -> list[Interval]:
    """The means of columns of integers, (query, column), with 95% intervals from resampling all sentences of a file.

    All columns and relations share the resamples, and sums of integers are exact: the same numbers always give the
    same intervals.
    """
    columns = np.concatenate([np.ones((len(values), 1)), values], axis=1).astype(np.float64)
    of_sentence = np.stack([np.bincount(sentence, column, sentences) for column in columns.T], axis=1)
    drawn = _resamples(sentences)
    sums = np.zeros((len(drawn), columns.shape[1]))
    for block in chunks(sentences, BLOCK):
        sums += drawn[:, block].astype(np.float64) @ of_sentence[block]
    means = sums[:, 1:] / np.maximum(sums[:, :1], 1)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return [Interval(*map(float, triple)) for triple in zip(values.mean(axis=0), low, high, strict=True)]


@lru_cache(maxsize=2)
def _resamples(sentences: int) -> NDArray[np.uint8]:
    """How often each sentence is in each resample, (resample, sentence)."""
    generator, drawn = np.random.default_rng(SEED), np.empty((RESAMPLES, sentences), np.uint8)
    for row in drawn:
        row[:] = np.bincount(generator.integers(sentences, size=sentences), minlength=sentences)
    return drawn
