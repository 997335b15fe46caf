"""What the heads of well-known models do: a small atlas that is part of the package.

Each file of shipped/ holds the labels of every head of one model and the relations that it finds, measured on the UD
English Web Treebank; `docs/ship_heads.py` makes one from what `regard heads treebank` wrote.
A model is recognised by its weights, so that another one of the same name or shape never gets these labels.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard import validate
from regard.arrays import numpy_of
from regard.errors import OptionError
from regard.heads.patterns import NONE, Label, describe_labels
from regard.heads.treebank_relations import NAMED, best_by_relation, swap_to_head
from regard.tables import printed_number

if TYPE_CHECKING:
    from regard.layers import Encoder

TREEBANK = "UD English EWT"  # on which shipped atlases were measured
SHIPPED = ("minilm", "smollm2")
SAMPLED = 4096  # numbers of each weight matrix that identify a model
LEAST, FEWEST, MORE = 0.4, 50, 0.05  # accuracy, words, and gain over the offset from which a head is named

# What people call the dependent and its head in each relation.
ENDS = {
    "subject": ("subject", "verb"), "passive subject": ("passive subject", "verb"), "object": ("object", "verb"),
    "indirect object": ("indirect object", "verb"), "agent": ("agent", "verb"),
    "possessor": ("possessor", "possession"), "spatial preposition": ("spatial preposition", "noun"),
    "place": ("place", "verb or noun"), "time": ("time word", "verb"),
    "relative pronoun": ("relative pronoun", "antecedent"), "pronoun": ("pronoun", "antecedent"),
    "case": ("preposition", "noun"), "determiner": ("determiner", "noun"), "auxiliary": ("auxiliary", "verb"),
    "passive auxiliary": ("passive auxiliary", "verb"), "adjective": ("adjective", "noun"),
    "adverb": ("adverb", "modified word"), "compound": ("first part of a compound", "last part"),
    "copula": ("copula", "predicate"), "marker": ("subordinating word", "verb"),
    "conjunction": ("conjunction", "conjunct"), "conjunct": ("later conjunct", "first conjunct"),
    "number": ("number", "noun"), "oblique": ("oblique noun", "verb"), "noun modifier": ("modifying noun", "noun"),
    "open complement": ("open complement", "verb"), "clausal complement": ("clausal complement", "verb"),
    "adverbial clause": ("adverbial clause", "main verb"), "clause of a noun": ("clause", "noun"),
    "relative clause": ("relative clause", "noun"), "apposition": ("apposition", "noun"),
    "flat name": ("later part of a name", "first part"), "particle": ("particle", "verb"),
    "parataxis": ("side clause", "main clause"), "expletive": ("expletive", "verb"),
    "nmod:unmarked": ("noun without preposition", "noun"), "obl:unmarked": ("noun without preposition", "verb"),
    "nmod:desc": ("describing noun", "noun"), "det:predet": ("predeterminer", "noun"),
    "discourse": ("interjection", "clause"), "vocative": ("person addressed", "clause"),
    "fixed": ("later word of a fixed phrase", "first word"), "list": ("list item", "first item"),
    "csubj": ("clause as subject", "verb"),
}  # fmt: skip

MEANT = {  # other names for what people ask
    "possession": "whose", "possessive": "whose", "owner": "whose", "space": "where", "spatial": "where",
    "location": "where", "temporal": "when", "subject verb object": "who does what", "svo": "who does what",
    "coreference": "what refers to what", "reference": "what refers to what",
}  # fmt: skip


def arrow(relation: str, direction: str) -> str:
    """A relation as an arrow from the word that attends to the one it attends to.

    >>> arrow("object", "to head"), arrow("object", "to dependent")
    ('object → verb', 'verb → object')
    """
    return " → ".join(swap_to_head(direction, *ENDS.get(relation, (relation, "head word"))))


class Role(NamedTuple):
    """A relation in one direction, and how often a head finds it, beside simpler ways."""

    relation: str
    group: str  # what people ask: "whose", "where", …; "grammar" for all others
    direction: str  # "to head" or "to dependent"
    layer: int
    head: int
    accuracy: float  # with its 95% bootstrap interval
    low: float
    high: float
    offset: int  # the best fixed offset: −1 is the word before
    offset_accuracy: float
    untrained: float | None  # the best head of an untrained model
    words: int  # that were asked
    choosing_gain: float  # accuracy minus that of the offset, on the file that the head was chosen on
    named: bool  # the interval of its gain over the offset is above 0, and its accuracy above the untrained one

    @property
    def arrow(self) -> str:
        """From the word that attends to the one it attends to: object → verb."""
        return arrow(self.relation, self.direction)

    def __str__(self) -> str:
        offset = f"best fixed offset {printed_number(self.offset_accuracy, 2)}"
        plain = "" if self.untrained is None else f", untrained {printed_number(self.untrained, 2)}"
        return f"{self.arrow} {printed_number(self.accuracy, 2)} of {self.words:,} ({offset}{plain})"


@dataclass(frozen=True, eq=False)
class KnownHeads:
    """What is known of every head of a model.

    >>> from regard import heads
    >>> known = heads.known("minilm")
    >>> print(known.head_for("object"))
    object → verb 0.74 of 1,153 (best fixed offset 0.35, untrained 0.07)
    >>> known.head_for("what refers to what") is None
    True
    """

    model: str
    weights: tuple[str, ...]  # digest of each layer
    heads: int
    source: str  # the texts, and their licence
    labels: tuple[tuple[tuple[Label, ...], ...], ...]  # [layer][head]
    best: tuple[Role, ...]  # the best head of each relation and direction, whether or not it beats the offset
    roles: tuple[Role, ...]  # what each head is known for, best first: see LEAST

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.weights)

    @cached_property
    def groups(self) -> dict[str, tuple[Role, ...]]:
        """What people ask, and for each relation of it the best head in its better direction, best first."""
        groups: dict[str, list[Role]] = {role.group: [] for role in self.best}
        best = best_by_relation(self.best).values()
        for role in sorted(best, key=lambda role: (not role.named, -role.choosing_gain)):
            groups[role.group].append(role)
        return {group: tuple(roles) for group, roles in groups.items()}

    def asked(self, name: str) -> tuple[Role, ...]:
        """The best heads for what is asked, best first.

        A group such as "whose" or "possession", a relation such as "object", or its label in the treebank, "obj".
        """
        meaning = " ".join(re.sub(r"[-–]| relation(ship)?s?$", " ", str(name).lower().strip()).split())
        meaning = MEANT.get(meaning) or NAMED.get(meaning, meaning)
        if meaning in self.groups:
            return self.groups[meaning]
        of_relation = {role.relation: role for roles in self.groups.values() for role in roles}
        if meaning not in of_relation:
            groups = ", ".join(group for group in self.groups if group != "grammar")
            raise OptionError(
                f"{self.model} was not measured for {name!r}. Ask for {groups}; or for a relation: "
                f"{', '.join(sorted(of_relation))}."
            )
        return (of_relation[meaning],)

    def head_for(self, name: str) -> Role | None:
        """The head that does what is asked; None if none beats the best fixed offset and an untrained model."""
        return next((role for role in self.asked(name) if role.named), None)

    def roles_of(self, layer: int, head: int) -> tuple[Role, ...]:
        """The relations that a head is known for, best first."""
        return tuple(role for role in self.roles if (role.layer, role.head) == (layer, head))

    def name(self, layer: int, head: int) -> str:
        """What the head is called on every page and in every table: its best relation, or else its first pattern.

        >>> from regard import heads
        >>> heads.known("minilm").name(3, 1), heads.known("minilm").name(5, 2)
        ('verb → object', 'no clear pattern')
        """
        names = [role.arrow for role in self.roles_of(layer, head)]
        return next(iter([*names, *(label.pattern for label in self.labels[layer][head])]), NONE)

    @property
    def names(self) -> list[list[str]]:
        """The name of every head: names[layer][head]."""
        return [[self.name(layer, head) for head in range(self.heads)] for layer in range(self.layers)]

    def short(self, layer: int, head: int) -> str:
        """A short line: the relation that it finds best, and its patterns."""
        parts = [
            f"{role.arrow} {printed_number(role.accuracy, 2)}, best fixed offset "
            f"{printed_number(role.offset_accuracy, 2)}"
            for role in self.roles_of(layer, head)[:1]
        ]
        return f"Head {layer}.{head}: {' · '.join(self._with_patterns(parts, layer, head))}"

    def _with_patterns(self, parts: list[str], layer: int, head: int) -> list[str]:
        labels = self.labels[layer][head]
        return [*parts, describe_labels(labels)] if labels or not parts else parts

    def said(self, layer: int, head: int, first: Role | None = None) -> str:
        r"""One line: its relations with what simpler ways reach, one of them `first`, and its patterns.

        >>> from regard import heads
        >>> print(heads.known("minilm").said(3, 1).replace("; ", "\n"))
        layer 3, head 1: verb → object 0.55 of 1,153 (best fixed offset 0.35, untrained 0.11)
        preposition → noun 0.58 of 1,967 (best fixed offset 0.39, untrained 0.11)
        """
        layer, head = validate.index("layer", layer, self.layers), validate.index("head", head, self.heads)
        others = [role for role in self.roles_of(layer, head) if first is None or role.arrow != first.arrow]
        parts = [str(role) for role in ([first] if first is not None else []) + others][:2]
        return f"layer {layer}, head {head}: {'; '.join(self._with_patterns(parts, layer, head))}"

    def nothing_for(self, name: str) -> str:
        """Why `head_for` has none to name."""
        best = self.asked(name)[0]
        return (
            f"No head of {self.model} does this reliably in other texts: the best for {best.arrow}, "
            f"{best.layer}.{best.head}, is right for {printed_number(best.accuracy, 2)} of {best.words:,} words, "
            f"and the best fixed offset ({best.offset:+d}) for {printed_number(best.offset_accuracy, 2)}."
        ).replace("(-", "(−")


def known(what: Any) -> KnownHeads | None:
    """What is known of the heads of a model: by the name of a shipped atlas, or of a `Model` or `Reading`.

    A model or reading is recognised by its weights; None where they are not those of a shipped atlas.
    """
    if isinstance(what, str):
        return shipped(what) if what in SHIPPED else None
    blocks = getattr(what, "blocks", ())
    is_edited = getattr(what, "edit", None) is not None or getattr(what, "is_edited", False)
    if not blocks or is_edited:
        return None
    for name in SHIPPED:
        atlas = shipped(name)
        fits = len(blocks) <= atlas.layers and all(block.attention.heads == atlas.heads for block in blocks)
        if fits and all(layer_digest(block) == of for block, of in zip(blocks, atlas.weights, strict=False)):
            return atlas
    return None


def of_weights(weights: Sequence[str]) -> KnownHeads | None:
    """The shipped atlas of a model whose layers have these digests."""
    return next((shipped(name) for name in SHIPPED if weights and shipped(name).weights == tuple(weights)), None)


@lru_cache
def shipped(name: str) -> KnownHeads:
    """The atlas of one model that is part of the package."""
    content = json.loads(files("regard.heads").joinpath("shipped", f"{name}.json").read_text(encoding="utf-8"))
    best = tuple(Role(*row) for row in content["relations"])
    roles = tuple(
        best[index]._replace(
            layer=layer, head=head, accuracy=accuracy, low=low, high=high, choosing_gain=gain, named=True
        )
        for index, layer, head, accuracy, low, high, gain in content["by_head"]
    )
    labels = tuple(tuple(tuple(Label(*label) for label in head) for head in layer) for layer in content["labels"])
    weights = tuple(content["weights"])
    return KnownHeads(content["model"], weights, content["heads"], content["source"], labels, best, roles)


def layer_digest(block: Encoder) -> str:
    """Tells the attention weights of one layer apart: shapes, and numbers spread over each matrix."""
    layer = block.attention
    maps = (layer.w_q, layer.w_k, layer.w_v, layer.w_o)
    return hashlib.sha256(b"".join(sample(part.weight) for part in maps if part is not None)).hexdigest()[:32]


def sample(array: Any) -> bytes:
    """The shape of an array, and numbers spread over it."""
    numbers = np.asarray(numpy_of(array)).reshape(-1)
    step = max(1, len(numbers) // SAMPLED) | 1  # odd, so that every column of a matrix is met
    return str(tuple(array.shape)).encode() + np.ascontiguousarray(numbers[::step], "<f4").tobytes()


def is_telling(one: Mapping[str, Any], best: Mapping[str, Any]) -> bool:
    """Whether a head is named for a relation: it finds it often, in enough words, and more often than without training.

    That the interval of its gain over the best fixed offset is above 0 is settled before.
    """
    untrained = 0 if best["untrained"] is None else best["untrained"]["value"]
    accuracy = one["accuracy"]
    often = accuracy["value"] >= LEAST and one["gain"]["value"] >= MORE
    return bool(often and best["queries"] >= FEWEST and accuracy["low"] > untrained)
