"""Which relations the links of one sentence can be: an answer for the sentence at hand, beside a treebank's score.

A score says how often a head finds a relation in a treebank, not what it links in another sentence. Here words get the
classes that their spelling allows (English), and a link is called a relation only if both its ends can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from regard.errors import OptionError
from regard.heads import treebank_relations
from regard.heads.roles import SHIPPED, TREEBANK, KnownHeads, Role, known
from regard.heads.treebank_relations import GROUPS, PLACE_PREPOSITIONS, SPATIAL, TIME_WORDS, swap_to_head, word_set
from regard.reading import Reading
from regard.reading.highlights import FUNCTION_WORDS, PRONOUNS
from regard.reading.links import UNRANKED
from regard.reading.weights import WordWeights
from regard.tables import printed_number

LEAST_WEIGHT = 0.1  # of a link that answers a question
MOST_QUERIES = 256  # words of a long text whose links are looked at
REFERENCE = "what refers to what"

BE = word_set("be is are was were been being am")
HAVE_AND_DO = word_set("do does did have has had having")
AUXILIARIES = BE | HAVE_AND_DO | word_set("will would can could shall should may might must")
PERSONAL = PRONOUNS | word_set("i me we us you myself ourselves yourself mine yours ours this that who whom")
POSSESSIVE = word_set("my your his her its our their whose")
DETERMINERS = word_set("a an the this that these those no every each some any all both")
PREPOSITIONS = SPATIAL | word_set(
    "of for with without about after before during since until as like than upon amid amongst despite except per till "
    "via versus unlike throughout besides concerning regarding"
)
CONJUNCTIONS = word_set("and or but nor so yet")
MARKERS = word_set(
    "that if because to when while although though since unless as than before after so whether whereas lest whenever "
    "wherever"
)
INDEFINITE = word_set(
    "anybody anyone anything everybody everyone everything nobody none nothing somebody someone something others "
    "whatever whoever"
)
QUANTIFIERS = word_set(
    "another other such same own much many more most few fewer less least several enough half either neither"
)
ADVERBS = word_set(
    "quite rather almost even perhaps maybe however thus therefore hence else instead together alone ever"
)
PARTICLES = word_set("up down off out away back over on in")
SUBJECTS = word_set("i he she we they")  # a noun does not follow them
OPEN = ("noun", "verb", "modifier")  # what a word that is in none of these lists can be
CLAUSES_OF_TIME = 3  # words after a preposition among which a time word makes it one of time

# The classes of the dependent and of its head, and where the head is: after the dependent (1), before it (−1), either.
ANY = "noun verb modifier"
POSSIBLE: dict[str, tuple[str, str, int]] = {
    "subject": ("noun pronoun", "verb", 1), "passive subject": ("noun pronoun", "verb", 1),
    "object": ("noun pronoun", "verb", -1), "indirect object": ("noun pronoun", "verb", -1),
    "agent": ("noun pronoun", "verb", -1), "possessor": ("possessive", "noun", 1),
    "spatial preposition": ("spatial", "place", 1), "place": ("place", "verb noun", -1),
    "time": ("time", "verb", 0), "relative pronoun": ("relative", "noun", -1), "pronoun": ("referring", "noun", -1),
    "case": ("preposition", "noun pronoun", 1), "determiner": ("determiner", "noun", 1),
    "auxiliary": ("auxiliary", "verb", 1), "passive auxiliary": ("copula", "verb", 1),
    "adjective": ("modifier", "noun", 0), "adverb": ("modifier", ANY, 0), "compound": ("noun", "noun", 1),
    "copula": ("copula", "noun modifier pronoun", 1), "marker": ("marker", "verb", 1),
    "conjunction": ("conjunction", ANY, 1), "conjunct": (ANY, ANY, -1), "number": ("number", "noun", 1),
    "oblique": ("noun pronoun", "verb", 0), "noun modifier": ("noun pronoun", "noun", -1),
    "open complement": (ANY, "verb modifier", -1), "clausal complement": (ANY, "verb modifier", 0),
    "adverbial clause": (ANY, ANY, 0), "clause of a noun": ("verb", "noun", -1),
    "relative clause": (ANY, "noun pronoun", -1), "apposition": ("noun", "noun pronoun", -1),
    "flat name": ("noun", "noun", -1), "particle": ("particle", "verb", -1), "parataxis": (ANY, ANY, 0),
    "expletive": ("expletive", "verb", 1),
}  # fmt: skip

EXAMPLES = {  # of each question, for a text that has none
    "who does what": "Action gets results",
    "whose": "Sarah lost her keys",
    "where": "The keys on the table are old",
    "when": "The train left yesterday",
    "what refers to what": "The kids were scared of the lions, so they left right away.",
}


def classes_of(words: Sequence[str]) -> tuple[frozenset[str], ...]:
    """What each word of a text can be; punctuation and special tokens can be nothing.

    >>> [sorted(of) for of in classes_of(["They", "left", "!"])]
    [['pronoun', 'referring'], ['modifier', 'verb'], []]
    """
    spelled = [word.casefold() for word in words]
    classes_of_words = [_alone(word) for word in spelled]
    first = next((index for index, classes in enumerate(classes_of_words) if classes), 0)
    for index, word in enumerate(spelled):
        if not classes_of_words[index].issuperset(OPEN):
            continue
        before = classes_of_words[index - 1] if index else set()
        if words[index][0].isupper() and index > first and not words[index].isupper():
            classes_of_words[index] -= {"verb", "modifier"}
        elif before & {"determiner", "possessive"} or (before & {"preposition"} and spelled[index - 1] != "to"):
            classes_of_words[index].discard("verb")
        elif (index and spelled[index - 1] in SUBJECTS) or (word.endswith("ed") and len(word) > 4):
            classes_of_words[index].discard("noun")
    for index, word in enumerate(spelled):
        if word in POSSESSIVE and index + 1 < len(classes_of_words) and "noun" in classes_of_words[index + 1]:
            classes_of_words[index].discard("pronoun")
        if classes_of_words[index] & {"noun"} and _is_possessive(spelled, index):
            classes_of_words[index].add("possessive")
        if word in PLACE_PREPOSITIONS and (phrase := _phrase(spelled, classes_of_words, index)):
            classes_of_words[index].add("spatial")
            for inside in phrase:
                classes_of_words[inside].add("place")
    return tuple(map(frozenset, classes_of_words))


def _alone(word: str) -> set[str]:
    if not any(letter.isalnum() for letter in word) or word.startswith(("[", "<")):
        return set()
    named = {
        "auxiliary": AUXILIARIES, "copula": BE, "verb": HAVE_AND_DO, "pronoun": PERSONAL | INDEFINITE,
        "referring": PRONOUNS,
        "relative": {"who", "whom", "whose", "which", "that"}, "possessive": POSSESSIVE, "determiner": DETERMINERS,
        "preposition": PREPOSITIONS, "conjunction": CONJUNCTIONS, "marker": MARKERS, "particle": PARTICLES,
        "expletive": {"it", "there"},
    }  # fmt: skip
    classes = {name for name, members in named.items() if word in members}
    if word[0].isdigit():
        classes |= {"number", "noun"}
    elif (word.endswith("ly") and len(word) > 4) or word in ADVERBS | treebank_relations.ADVERBS_OF_TIME | PARTICLES:
        classes.add("modifier")
    elif word in QUANTIFIERS:
        classes |= {"noun", "modifier"}
    elif word not in FUNCTION_WORDS | PREPOSITIONS | DETERMINERS | MARKERS | INDEFINITE:
        classes |= set(OPEN)
    if word in TIME_WORDS or word.removesuffix("s") in TIME_WORDS:
        classes = (classes | {"time"}) - {"verb"}
    return classes


def _is_possessive(words: Sequence[str], place: int) -> bool:
    after = list(words[place + 1 : place + 3])
    has_ending = words[place].endswith(("'s", "’s", "s'", "s’"))
    return has_ending or after[:1] in (["'s"], ["’s"]) or (after[:1] in (["'"], ["’"]) and (
        after[1:] == ["s"] or words[place].endswith("s")
    ))  # fmt: skip


def _phrase(words: Sequence[str], found: Sequence[set[str]], preposition: int) -> list[int]:
    """The words that a preposition of place can belong to; none where a time word follows: "in the morning"."""
    inside = []
    for index in range(preposition + 1, len(words)):
        if "time" in found[index] and index - preposition <= CLAUSES_OF_TIME:
            return []
        if "noun" in found[index]:
            inside.append(index)
        elif not found[index] & {"determiner", "possessive", "number"} or inside:
            break
    return inside


def can_be(relation: str, dependent: int, head: int, classes: Sequence[frozenset[str]]) -> bool:
    """Whether one word can depend on another in this way.

    >>> classes = classes_of(["kids", "so", "they", "left"])
    >>> can_be("object", 0, 2, classes), can_be("subject", 2, 3, classes), can_be("pronoun", 2, 0, classes)
    (False, True, True)
    """
    of_dependent, of_head, side = POSSIBLE.get(relation, (ANY, ANY, 0))
    in_order = head > dependent if side > 0 else head < dependent if side < 0 else head != dependent
    return in_order and not classes[dependent].isdisjoint(of_dependent.split()) and (
        not classes[head].isdisjoint(of_head.split())
    )  # fmt: skip


def is_link(relation: str, direction: str, query: int, key: int, classes: Sequence[frozenset[str]]) -> bool:
    """Whether a link from a query to a key can be a relation in one direction."""
    return can_be(relation, *swap_to_head(direction, query, key), classes)


class RelationLink(NamedTuple):
    """What one head links in this sentence: positions of words, and the weight."""

    layer: int
    head: int
    query: int
    key: int
    weight: float

    def ends(self, direction: str) -> tuple[int, int]:
        """Its dependent and its head, if it is a relation in this direction."""
        return swap_to_head(direction, self.query, self.key)


class RelationAnswer(NamedTuple):
    """A link that can be what was asked for; without a role where no head is known for it."""

    link: RelationLink
    role: Role | None

    @property
    def arrow(self) -> str:
        """The relation as an arrow."""
        return "pronoun → antecedent" if self.role is None else self.role.arrow


@dataclass(frozen=True, eq=False)
class TaggedSentence:
    """The words of a text and what attends to what, between words."""

    words: Sequence[str]
    weights: WordWeights
    sinks: Collection[int]  # positions of words that are set aside

    @classmethod
    def of(cls, reading: Reading) -> TaggedSentence:
        """The words of a reading."""
        return cls([word.text for word in reading.words], reading.word_weights, reading.sink_words)

    @cached_property
    def classes(self) -> tuple[frozenset[str], ...]:
        """What each word can be; sinks can be nothing."""
        of_words = classes_of(self.words)
        return tuple(frozenset() if index in self.sinks else of for index, of in enumerate(of_words))

    def links(self, layer: int, heads: range) -> list[RelationLink]:
        """For each head and each word the other word with the largest weight, sinks aside."""
        queries = [index for index in range(len(self.words)) if index not in self.sinks][:MOST_QUERIES]
        if not queries:
            return []
        weights = self.weights.of_words(queries, layer, heads)
        weights[:, :, list(self.sinks)] = UNRANKED
        weights[:, np.arange(len(queries)), queries] = UNRANKED
        keys = weights.argmax(axis=-1)
        return [
            RelationLink(layer, head, query, int(keys[at, row]), float(weights[at, row, keys[at, row]]))
            for at, head in enumerate(heads)
            for row, query in enumerate(queries)
            if weights[at, row, keys[at, row]] > 0
        ]

    def link(self, layer: int, head: int, query: int) -> RelationLink | None:
        """What one word attends to most in one head, sinks aside."""
        return next((link for link in self.links(layer, range(head, head + 1)) if link.query == query), None)


def answers(known: KnownHeads, name: str, sentence: TaggedSentence) -> list[RelationAnswer]:
    """The links of this sentence that can be what is asked, in the heads that are known for it.

    Where no head is known for what a pronoun refers to, the strongest link from a pronoun back to a noun.
    """
    roles = [role for role in known.asked(name) if role.layer < len(sentence.weights.attentions)]
    answered: list[RelationAnswer] = []
    dependents, heads = set[int](), set[int]()  # a word that is the verb of one answer is not the object of another
    for role in roles:
        if not role.named:
            continue
        links = []
        for link in sentence.links(role.layer, range(role.head, role.head + 1)):
            dependent, head = link.ends(role.direction)
            if dependent not in heads and head not in dependents:
                links.append(link)
        if best := _best(links, role.relation, role.direction, sentence):
            dependent, head = best.ends(role.direction)
            dependents.add(dependent)
            heads.add(head)
            if all(best != answer.link for answer in answered):
                answered.append(RelationAnswer(best, role))
    if not answered and any(role.group == REFERENCE for role in roles):
        links = [
            link
            for layer, attention in enumerate(sentence.weights.attentions)
            for link in sentence.links(layer, range(attention.shape[0]))
            if abs(link.key - link.query) > 1  # many heads link neighbours, whatever these are
        ]
        if best := _best(links, "pronoun", "to head", sentence):
            answered.append(RelationAnswer(best, None))
    return answered


def _best(
    links: Iterable[RelationLink], relation: str, direction: str, sentence: TaggedSentence
) -> RelationLink | None:
    possible = [
        link
        for link in links
        if link.weight >= LEAST_WEIGHT and is_link(relation, direction, link.query, link.key, sentence.classes)
    ]
    return max(possible, key=lambda link: link.weight, default=None)


def not_here(known: KnownHeads, name: str, sentence: TaggedSentence) -> str:
    """What to say where `answers` has none: an example to try, or that no head of the model does it."""
    roles = known.asked(name)
    named = next((role for role in roles if role.named), None)
    if named is None and roles[0].group != REFERENCE:
        return known.nothing_for(name)
    example = f": try “{EXAMPLES[roles[0].group]}”" if roles[0].group in EXAMPLES else ""
    occurs = any(_occurs(role.relation, sentence) for role in roles)
    if named is None or not occurs:
        return f"Not in this sentence{example}."
    return f"Head {named.layer}.{named.head}, known for {named.arrow}, does not show it in this sentence{example}."


def _occurs(relation: str, sentence: TaggedSentence) -> bool:
    """Whether some word can be the dependent of a relation."""
    classes = POSSIBLE.get(relation, (ANY, ANY, 0))[0].split()
    return any(not of_word.isdisjoint(classes) for of_word in sentence.classes)


def said_of_link(known: KnownHeads, sentence: TaggedSentence, link: RelationLink) -> str:
    """One link in words; with the relation its head is known for only if the link can be one.

    "they → kids 0.81 here", "scared → lions 0.36 here, which can be verb → object".
    """
    words = f"{sentence.words[link.query]} → {sentence.words[link.key]} {printed_number(link.weight, 2)} here"
    for role in known.roles_of(link.layer, link.head):
        if is_link(role.relation, role.direction, link.query, link.key, sentence.classes):
            return f"{words}, which can be {role.arrow}"
    return words


def said_of_answer(known: KnownHeads, sentence: TaggedSentence, answer: RelationAnswer) -> str:
    """An answer in words: the link here, then how often its head is right in general."""
    layer, head, query, key, weight = answer.link
    link = f"{sentence.words[query]} → {sentence.words[key]} {printed_number(weight, 2)} here"
    if answer.role is None:
        nothing = known.nothing_for(REFERENCE)
        return f"layer {layer}, head {head}: {link}. In general, {nothing[0].lower()}{nothing[1:]}"
    same = also_best(known, answer.role)
    return f"layer {layer}, head {head}: {link}. In general, on {TREEBANK}: {answer.role}.{f' {same}' if same else ''}"


def also_best(known: KnownHeads, role: Role) -> str:
    """The other questions to which a head is the answer; empty if there are none."""
    others = [
        f"{other.arrow} ({group})"
        for group, roles in known.groups.items()
        for other in roles
        if group in GROUPS and other.named and other[3:5] == role[3:5] and other.arrow != role.arrow
    ]
    return f"Head {role.layer}.{role.head} is also the best for {', '.join(others)}." if others else ""


def answer_in(reading: Reading, name: str, query: Any = None) -> RelationAnswer:
    """The link of a text that can be the named relation, by the head that is known for it; OptionError if none can.

    query   a word of the text; None for the first link
    """
    known_heads = known(reading)
    if known_heads is None:
        raise OptionError(
            f"What the heads of {reading.model} do is not known; it is for {' and '.join(SHIPPED)}.\n"
            "regard heads treebank dev.conllu --score test.conllu measures it for any model."
        )
    sentence = TaggedSentence.of(reading)
    word = None if query is None else reading.words.index(reading.word(query))
    possible = answers(known_heads, name, sentence)
    answer = next((answer for answer in possible if word in (None, answer.link.query)), None)
    if answer is None and possible:
        links = ", ".join(reading.labels[answer.link.query] for answer in possible)
        raise OptionError(f"--head {name}: not with the query {reading.labels[word or 0]}; try {links}.")
    if answer is None:
        raise OptionError(f"{not_here(known_heads, name, sentence)}\nOr choose a head with --layer and --head.")
    return answer
