"""What a page knows of what it shows: the answer to `describe`, and the header of a training page.

`docs/write_types.py` writes these types for JavaScript (web/description.d.ts).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict

Kind = Literal["reading", "trace", "lookup"]
Measure = Literal["weight", "norm", "mean", "rollout"]
Vector = list[float]
Matrix = list[list[float]]


class Sizes(TypedDict):
    """Of the first layer; None where there is no attention."""

    heads: int
    key_heads: int | None  # fewer than heads where heads share keys
    head_dim: int | None
    value_dim: int | None
    scale: float | None  # that scores are multiplied by
    softcap: float | None
    mask: str | None  # the expression that makes it
    causal: bool
    window: int | None  # keys that a query sees, its own among them


class LayerMask(TypedDict):
    """The keys that queries of a layer may see, in some head: by a causal mask with a window, or by intervals."""

    causal: bool
    window: int | None  # keys that a query sees, its own among them
    visible: list[list[int]] | None  # of each query the ends of intervals [first, last); None: by causal and window


class Start(TypedDict, total=False):
    """Where a page opens."""

    layer: int
    head: int
    query: int  # a token
    view: str  # where a place was chosen; without it, a page opens with its first screen


class CertificateNumbers(TypedDict):
    """See `regard.reading.certificate.Certificate`."""

    row_sums: float
    forbidden: float
    output: float
    rows: int
    line: str
    unverified: str


class KeptParts(TypedDict):
    """The layers and heads that a page holds; None is all of them."""

    layers: Sequence[int] | None
    heads: Sequence[int] | None


class RoleScore(TypedDict):
    """How often a head finds a relation, beside simpler ways: see `regard.heads.roles.Role`."""

    relation: str
    group: str
    direction: str
    layer: int
    head: int
    accuracy: float
    low: float
    high: float
    offset: int
    offset_accuracy: float
    untrained: float | None
    words: int
    choosing_gain: float
    named: bool


class RoleAnswer(TypedDict):
    """A head, a link of the text that can be the relation, and how the head scores in general."""

    layer: int
    head: int
    query: int  # a token
    key: int
    weight: float
    arrow: str
    scored: RoleScore | None
    same: str  # other heads that score alike
    unscored: str | None  # why there is no score


class RoleQuestion(TypedDict):
    """A question to the heads, such as "whose"."""

    name: str
    answers: list[RoleAnswer]
    nothing: str  # why there is no answer in this text
    example: str  # a text that has one


class HeadRoles(TypedDict):
    """What the heads of a model do, in general and in this text."""

    treebank: str
    source: str
    labels: list[list[str]]  # per layer and head
    said: list[list[str]]
    relations: list[list[list[list[str]]]]  # per layer and head: relation, direction, arrow
    possible: Mapping[str, tuple[str, str, int]]  # word classes of dependent and head, side of the head
    classes: list[list[str]]  # per word
    asks: list[RoleQuestion]


class Editable(TypedDict):
    """A small example: embeddings and W as in x · W, one matrix per head."""

    tokens: Sequence[str]
    embedding: Matrix
    note: str | None
    w_q: list[Matrix]
    w_k: list[Matrix]
    w_v: list[Matrix]
    w_o: Matrix | None
    b_q: Matrix | None  # one vector per head
    b_k: Matrix | None
    b_v: Matrix | None
    b_o: Vector | None


class LookupParts(TypedDict):
    """A dictionary that is looked up softly."""

    keys: list[str]
    values: list[str]
    numbers: Matrix | None  # the values, where they are numbers
    vectors: Matrix | None  # the keys', where the page computes the similarity
    spelling: bool  # keys are compared by their letters
    similarity: str
    temperature: float
    query: str | None


class Description(Sizes):
    """What a page shows: tokens, sizes, masks, and the kinds of queries that can be answered."""

    format: int
    kind: Kind
    title: str
    text: str
    model: str
    source: str  # where the numbers come from
    tokens: Sequence[str]
    special: Sequence[int]  # tokens such as [CLS]
    joined: Sequence[int]  # tokens that continue the one before
    words: Sequence[tuple[int, int]]  # tokens [first, last)
    given: int | None  # tokens that were given: the model wrote the others
    stops: list[int] | None  # where each token ends in the text, in UTF-16 units
    layers: int
    layer_numbers: Sequence[int]  # in the model
    head_numbers: Sequence[int]
    sinks: Sequence[int]  # tokens
    queries: int
    query_tokens: Sequence[str] | None  # where queries are not among the keys
    first_query: int | None  # the key position of query 0
    masks: list[LayerMask]  # the different ones
    mask_of_layer: list[int]  # by position in `masks`
    long: bool
    certificate: CertificateNumbers | None
    has: list[str]
    measures: list[Measure]
    w_o: bool  # norms are taken after W_O
    kept: KeptParts
    editable: Editable | None
    lookup: LookupParts | None
    note: str | None
    known: HeadRoles | None
    start: Start | None
    compared: NotRequired[Sequence[str]]  # sentences that a text is compared with
    site: NotRequired[str]  # the address of the site that a shared page comes from


class Probe(TypedDict):
    """A sequence that every snapshot of a training run reads."""

    text: str
    tokens: list[str]
    keys: list[int]  # the right key of each query; −1 where the task has none
    relations: list[int]  # which relation the query asks for; −1 for none


class TrainingHeader(TypedDict):
    """The header of a training page; None stands for numbers that are not finite."""

    title: str
    about: str
    steps: list[int]  # of the snapshots, as are the next three
    loss: list[float | None]
    test_loss: list[float | None]
    answers: list[float | None]  # the share of right answers
    layers: int
    heads: int
    relations: Sequence[str]
    probes: list[Probe]
    causal: bool
    largest_weight: int  # weights are stored in 8 bits
