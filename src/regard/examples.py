"""Examples by name: sentences, dictionaries, vectors and worked examples, small enough to follow by hand.

>>> named("cat-sat").content["embeddings"]["cat"]
[0, 1, 0, 1]
>>> named("cat-sta")
Traceback (most recent call last):
regard.errors.OptionError: `example` is 'cat-sta', which is not the name of an example. Did you mean 'cat-sat'?
The names: action, africa, apple-fruit, apple-phone, apple-phones, car, cat-sat, cat-sat-notes, four-words, heads, ...
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard import errors
from regard.errors import did_you_mean

Kind = Literal["worked", "sentence", "passage", "dictionary", "vectors", "numbers", "notes"]


@dataclass(frozen=True, eq=False, slots=True)
class Example:
    """Something to try, as data that JSON can hold."""

    name: str
    kind: Kind
    about: str
    content: Any  # a text, or what a JSON file holds; notes as their text, because 0.50 is not 0.5 there
    commands: tuple[str, ...] = ()  # what to try it with

    def __str__(self) -> str:
        return self.content if isinstance(self.content, str) else written(self.content)


def named(name: str) -> Example:
    """The example of this name."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    raise errors.OptionError(
        f"`example` is {name!r}, which is not the name of an example.{did_you_mean(name, EXAMPLES)}\n"
        f"The names: {', '.join(sorted(EXAMPLES))}."
    )


def written(content: Any, indent: str = "") -> str:
    """JSON with every vector on a line of its own.

    >>> print(written({"keys": [[1, 2], [3, 4]], "name": "Jane"}))
    {
      "keys": [
        [1, 2],
        [3, 4]
      ],
      "name": "Jane"
    }
    """
    inner = indent + "  "
    if isinstance(content, dict) and content:
        parts = [f"{inner}{_json(name)}: {written(part, inner)}" for name, part in content.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(content, list) and any(isinstance(part, (list, dict)) for part in content):
        return "[\n" + ",\n".join(inner + written(part, inner) for part in content) + f"\n{indent}]"
    return _json(content)


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


_AFTERWARDS = (
    "On Saturday she got up before it was light, because there was a lot to do. Her brother came by at noon with bread "
    "and coffee, and they sat in the sun for a while. When he had left, she went back in and closed the door. The last "
    "thing that she held in her hands that day was an apple."
)

# Texts by name: what they show, the text, and options of `regard steps` to try on it.
_SENTENCES = {
    "kids": (
        "Does 'they' mean the kids or the lions?",
        "The kids were scared of the lions, so they left right away.",
        " --query they",
    ),
    "action": ("Three words", "Action gets results", ""),
    "keys": (
        "Who, where, whose, when: heads attend to each",
        "Keys on the table belong to Sarah",
        " --query Keys --heads 4",
    ),
    "sarah": (
        "Pronouns that reach back across sentences",
        "Keys on the table belong to Sarah. She put them there on Monday, when she came home from the library. The "
        "table is old, and one of its legs is shorter than the others. It stood in her grandmother's kitchen long "
        "before she was born. When somebody leans on it, everything slides a little, and so by the evening her keys "
        "had fallen to the floor. Her brother found them. He put them back, and told her that it needs a new leg.",
        " --query them:2",
    ),
    "jake": (
        "A pronoun that reaches back over fourteen words",
        "Jake saw the Apple iPhone on a shelf in the shop and took it into his hand. It felt lighter than he had "
        "thought.",
        " --query It",
    ),
    "apple-phones": ("A vector moves with its context: Apple the phone", "Love Apple phones", " --query Apple"),
    "apple-phone": (
        "The deciding context is sentences away: apple the phone",
        "She mends phones for a living. " + _AFTERWARDS,
        " --query apple",
    ),
    "apple-fruit": (
        "The same after another beginning: apple the fruit",
        "She grows fruit for a living. " + _AFTERWARDS,
        " --query apple",
    ),
    "africa": ("Each word attends to the others", "jane visits africa", ""),
}

_ALL = (
    Example(
        "cat-sat",
        "worked",
        "The cat sat: vectors of 4, W_q = W_k = W_v = I",
        {
            "words": ["The", "cat", "sat"],
            "embeddings": {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], "sat": [1, 1, 1, 1]},
        },
        ("regard steps --example cat-sat", "regard steps --example cat-sat --query cat --heads 2"),
    ),
    Example(
        "cat-sat-notes",
        "notes",
        "The cat sat as printed in lecture notes, with their slips",
        (Path(__file__).parent / "teaching" / "hand_check" / "the_cat_sat.json").read_text(encoding="utf-8"),
        ("regard examples cat-sat-notes > notes.json", "regard check notes.json"),
    ),
    Example(
        "four-words",
        "vectors",
        "Queries, keys and values; two of the keys are equal",
        {
            "queries": [[0.3, 1.2, 2.2], [0.1, 6.2, 2.1], [2.1, 2.5, 5.2], [1.1, 6.6, 4.3]],
            "keys": [[0.4, 1.4, 0.0], [0.2, -1.1, 0.0], [0.3, 1.2, 4.0], [0.3, 1.2, 4.0]],
            "values": [[2.3, 1.1, 3.5], [3.0, 1.0, 0.5], [-2.2, 4.1, 2.5], [-2.2, 4.1, 2.5]],
        },
        ("regard steps --example four-words --query 0", 'regard examples four-words | regard lookup - "[0.3, 1.2, 4]"'),
    ),
    *(
        Example(
            name, "passage" if ". " in text else "sentence", about, text, (f"regard steps --example {name}{options}",)
        )
        for name, (about, text, options) in _SENTENCES.items()
    ),
    Example(
        "partners",
        "numbers",
        "A table of partners: an illustration, not computed",
        {"jane": {"visit": 0.94}, "visit": {"africa": 0.86}, "africa": {"visit": 0.76}},
    ),
    Example(
        "person",
        "dictionary",
        "A record with values inside values",
        {
            "first_name": "John",
            "last_name": "Smith",
            "is_alive": True,
            "age": 27,
            "address": {
                "street_address": "21 2nd Street",
                "city": "New York",
                "state": "NY",
                "postal_code": "10021-3100",
            },
            "phone_numbers": [
                {"type": "home", "number": "212 555-1234"},
                {"type": "office", "number": "646 555-4567"},
            ],
        },
        ("regard examples person | regard lookup - first_name", "regard examples person | regard lookup - surname"),
    ),
    Example(
        "car",
        "dictionary",
        "Three keys and their values",
        {"brand": "Ford", "model": "Mustang", "year": 1964},
        ("regard examples car | regard lookup - model", "regard examples car | regard lookup - modle"),
    ),
    Example(
        "jane",
        "dictionary",
        "A form; the query is 'Date of birth'",
        {
            "Name": "Jane Doe",
            "Address": "37 Coronation street B12 9TK",
            "Date of birth": "May 5th 2000",
            "Place of birth": "Hull",
        },
        (
            'regard examples jane | regard lookup - "Date of birth"',
            'regard examples jane | regard lookup - "birth date"',
        ),
    ),
    Example(
        "softmax",
        "numbers",
        "Halved scores give more even weights: why √d_k",
        {"scores": [6, 4], "weights": [0.88, 0.12], "divisor": 2, "scaled": [3, 2], "scaled_weights": [0.73, 0.27]},
        ("regard scaling",),
    ),
    Example(
        "heads",
        "numbers",
        "d_model 512, 8 heads of 64: scores divided by √64 = 8",
        {"d_model": 512, "heads": 8, "d_k": 64, "divisor": 8},
        ('regard steps "The cat sat" --heads 8 --set width=512 --query cat --head 0',),
    ),
)

EXAMPLES = {example.name: example for example in _ALL}
