"""What the heads of well-known models do: a small atlas that is part of the package.

Each file of shipped/ holds the labels of every head of one model and the relations that it finds, measured on the UD
English Web Treebank; `python -m regard.heads.roles heads.json OUT` makes one from what `regard heads treebank` wrote.
A model is recognised by its weights, so that another one of the same name or shape never gets these labels.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard import atomic_file, validate
from regard.arrays import numpy_of
from regard.errors import OptionError
from regard.heads.patterns import Label, described
from regard.heads.treebank_relations import NAMED
from regard.tables import printed_number

FORMAT = 1
TREEBANK = "UD English EWT"  # on which shipped atlases were measured
SHIPPED = ("minilm", "smollm2")
SAMPLED = 4096  # numbers of each weight matrix that identify a model
KEPT = 6  # relations per head in a shipped file
LEAST, FEWEST, MORE = 0.4, 50, 0.05  # accuracy, words, and gain over the offset from which a head is named
DIGITS = 5  # more than are printed: rounded twice, 0.3446 would become 0.35

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
    dependent, head = ENDS.get(relation, (relation, "head word"))
    return f"{dependent} → {head}" if direction == "to head" else f"{head} → {dependent}"


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
        found: dict[str, dict[str, Role]] = {}
        for role in self.best:
            of_group = found.setdefault(role.group, {})
            before = of_group.get(role.relation)
            if before is None or role.choosing_gain > before.choosing_gain:
                of_group[role.relation] = role
        return {group: tuple(sorted(of.values(), key=_order)) for group, of in found.items()}

    def asked(self, name: str) -> tuple[Role, ...]:
        """The best heads for what is asked, best first.

        A group such as "whose" or "possession", a relation such as "object", or its label in the treebank, "obj".
        """
        wanted = " ".join(str(name).lower().replace("-", " ").split())
        wanted = MEANT.get(wanted) or NAMED.get(wanted, wanted)
        if wanted in self.groups:
            return self.groups[wanted]
        found = [role for of_group in self.groups.values() for role in of_group if role.relation == wanted]
        if not found:
            asks = [group for group in self.groups if group != "grammar"]
            relations = sorted(role.relation for of_group in self.groups.values() for role in of_group)
            raise OptionError(
                f"{self.model} was not measured for {name!r}. Ask for {', '.join(asks)}; or for a relation: "
                f"{', '.join(relations)}."
            )
        return tuple(found)

    def head_for(self, name: str) -> Role | None:
        """The head that does what is asked; None if none beats the best fixed offset and an untrained model."""
        return next((role for role in self.asked(name) if role.named), None)

    def roles_of(self, layer: int, head: int) -> tuple[Role, ...]:
        """The relations that a head is known for, best first."""
        return tuple(role for role in self.roles if (role.layer, role.head) == (layer, head))

    def label(self, layer: int, head: int) -> str:
        """A few words: its best relation, or else its patterns."""
        roles = self.roles_of(layer, head)
        if roles:
            return f"{roles[0].arrow} {printed_number(roles[0].accuracy, 2)}"
        return described(self.labels[layer][head])

    def short(self, layer: int, head: int) -> str:
        """A short line: the relation that it finds best, and its patterns."""
        parts = [
            f"{role.arrow} {printed_number(role.accuracy, 2)}, best fixed offset "
            f"{printed_number(role.offset_accuracy, 2)}"
            for role in self.roles_of(layer, head)[:1]
        ]
        labels = self.labels[layer][head]
        if labels or not parts:
            parts.append(described(labels))
        return f"Head {layer}.{head}: {' · '.join(parts)}"

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
        labels = self.labels[layer][head]
        if labels or not parts:
            parts.append(described(labels))
        return f"layer {layer}, head {head}: {'; '.join(parts)}"

    def nothing_for(self, name: str) -> str:
        """Why `head_for` has none to name."""
        best = self.asked(name)[0]
        return (
            f"No head of {self.model} does this reliably in other texts: the best for {best.arrow}, "
            f"{best.layer}.{best.head}, is right for {printed_number(best.accuracy, 2)} of {best.words:,} words, "
            f"and the best fixed offset ({best.offset:+d}) for {printed_number(best.offset_accuracy, 2)}."
        ).replace("(-", "(−")


def _order(role: Role) -> tuple[bool, float]:
    return not role.named, -role.choosing_gain


def known(what: Any) -> KnownHeads | None:
    """What is known of the heads of a model: by the name of a shipped atlas, or of a `Model` or `Reading`.

    A model or reading is recognised by its weights; None where they are not those of a shipped atlas.
    """
    if isinstance(what, str):
        return shipped(what) if what in SHIPPED else None
    blocks = getattr(what, "blocks", ())
    if not blocks:
        return None
    for name in SHIPPED:
        found = shipped(name)
        fits = len(blocks) <= found.layers and all(block.attention.heads == found.heads for block in blocks)
        if fits and all(digest(block) == of for block, of in zip(blocks, found.weights, strict=False)):
            return found
    return None


@lru_cache
def shipped(name: str) -> KnownHeads:
    """The atlas of one model that is part of the package."""
    content = json.loads(files("regard.heads").joinpath("shipped", f"{name}.json").read_text(encoding="utf-8"))
    best = tuple(Role(*row) for row in content["relations"])
    roles = tuple(
        best[place]._replace(
            layer=layer, head=head, accuracy=accuracy, low=low, high=high, choosing_gain=gain, named=True
        )
        for place, layer, head, accuracy, low, high, gain in content["by_head"]
    )
    labels = tuple(tuple(tuple(Label(*one) for one in head) for head in layer) for layer in content["labels"])
    weights = tuple(content["weights"])
    return KnownHeads(content["model"], weights, content["heads"], content["source"], labels, best, roles)


def digest(block: Any) -> str:
    """Tells the attention weights of one layer apart: shapes, and numbers spread over each matrix."""
    found = hashlib.sha256()
    layer = block.attention
    for part in (layer.w_q, layer.w_k, layer.w_v, layer.w_o):
        if part is not None:
            found.update(sample(part.weight))
    return found.hexdigest()[:32]


def sample(array: Any) -> bytes:
    """The shape of an array, and numbers spread over it."""
    numbers = np.asarray(numpy_of(array)).reshape(-1)
    step = max(1, len(numbers) // SAMPLED) | 1  # odd, so that every column of a matrix is met
    return str(tuple(array.shape)).encode() + np.ascontiguousarray(numbers[::step], "<f4").tobytes()


# Making one


def compact(data: dict[str, Any], source: str) -> str:
    """The content of a shipped file, from what `regard heads treebank … --out heads.json` wrote."""
    places = {(one["relation"], one["direction"]): place for place, one in enumerate(data["relations"])}
    most = {one["relation"]: 0.0 for one in data["relations"]}
    for one in data["relations"]:
        most[one["relation"]] = max(most[one["relation"]], one["seen"])
    usual = {
        place for place, one in enumerate(data["relations"]) if 2 * one["seen"] >= most[one["relation"]]
    }  # of a causal model, the direction in which few pairs are seen is left out
    new_place = {place: count for count, place in enumerate(sorted(usual))}
    relations = [_relation(data["relations"][place]) for place in sorted(usual)]
    by_head: list[list[Any]] = []
    kept: dict[tuple[int, int], int] = {}
    for one in data["by_head"]:
        place = places[one["relation"], one["direction"]]
        of = one["layer"], one["head"]
        if place in usual and kept.get(of, 0) < KEPT and is_telling(one, data["relations"][place]):
            kept[of] = kept.get(of, 0) + 1
            by_head.append([new_place[place], *of, *_rounded(one["accuracy"]), round(one["choosing_gain"], DIGITS)])
    labels = [
        [[[label["pattern"], round(label["score"], DIGITS)] for label in head] for head in layer]
        for layer in data["labels"]
    ]
    content = {
        "format": FORMAT, "model": data["model"], "weights": data["weights"], "heads": data["heads"], "source": source,
        "labels": labels, "relations": relations, "by_head": by_head,
    }  # fmt: skip
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_lines(part)}" for name, part in content.items()) + "\n}\n"


def is_telling(one: Mapping[str, Any], best: Mapping[str, Any]) -> bool:
    """Whether a head is named for a relation: it finds it often, in enough words, and more often than without training.

    That the interval of its gain over the best fixed offset is above 0 is settled before.
    """
    untrained = 0 if best["untrained"] is None else best["untrained"]["value"]
    accuracy = one["accuracy"]
    often = accuracy["value"] >= LEAST and one["gain"]["value"] >= MORE
    return bool(often and best["queries"] >= FEWEST and accuracy["low"] > untrained)


def _lines(part: Any) -> str:
    """JSON with one row of a table per line, so that changes can be compared."""
    if not isinstance(part, list):
        return json.dumps(part, ensure_ascii=False)
    rows = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in part]
    return "[\n" + ",\n".join(rows) + "\n]"


def _relation(one: dict[str, Any]) -> list[Any]:
    untrained = one["untrained"]
    return [
        one["relation"], one["group"], one["direction"], one["layer"], one["head"], *_rounded(one["accuracy"]),
        one["offset"], round(one["offset_accuracy"]["value"], DIGITS),
        None if untrained is None else round(untrained["value"], DIGITS), one["queries"],
        round(one["choosing_gain"], DIGITS), one["named"],
    ]  # fmt: skip


def _rounded(interval: dict[str, float]) -> Iterator[float]:
    return (round(interval[name], DIGITS) for name in ("value", "low", "high"))


def main(given: Sequence[str]) -> None:
    """Make a shipped file: heads.json, the file to write, and a line about the texts."""
    data = json.loads(Path(given[0]).read_text(encoding="utf-8"))
    atomic_file.write(given[1], compact(data, given[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
