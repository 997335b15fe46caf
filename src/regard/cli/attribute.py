"""`regard attribute`: what a model's parts write towards an answer, and what heads are by their weights."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Literal

import typer

from regard.cli import text_input
from regard.cli.commands import group
from regard.cli.options import (
    CAUSAL,
    MOST_ROWS,
    USUAL,
    WITH_PARQUET,
    AnyModel,
    ComputedModel,
    Text,
    Writes,
    open_computed,
    open_model,
)
from regard.cli.outputs import Output
from regard.errors import OptionError

Written = Annotated[Output, Writes(WITH_PARQUET)]


def lens(output: Written, text: Text, target: str | None = None, model: AnyModel = None) -> None:
    """The logit lens: what the model would predict if it ended after each layer.

    target  Follow this token; by default the one that follows.

    Examples:
      regard attribute lens "The capital of France is" --target " Paris"
      regard attribute lens "The capital of France is" --out lens.svg --out lens.csv
    """
    from regard.attribution import logit_lens
    from regard.output import figure

    result = logit_lens(open_model(model or CAUSAL), text_input.text_given(text), target)
    output.publish([result.table(output.most(-1))], partial(figure.logit_lens, result))


def logit(
    output: Written, text: Text, toward: str | None = None, against: str | None = None, model: AnyModel = None
) -> None:
    r"""The direct contribution of every head, and of every token through each head, to the logit of the next token.

    toward   The next token whose logit is explained; by default the most likely one.
    against  Subtract the logit of this token.

    Examples:
      regard attribute logit "The capital of France is"
      regard attribute logit "When Mary and John met, John gave a drink to" \
          --toward " Mary" --against " John" --out heads.svg --out heads.csv
    """
    from regard.attribution import contributions
    from regard.output import figure

    chosen = toward if against is None else (toward, against)
    parts = contributions(open_model(model or CAUSAL), text_input.text_given(text), chosen)
    tables = [parts.table(output.most(MOST_ROWS))]
    tables += [] if output.is_printed else [parts.source_table(), parts.part_table()]
    draw = partial(
        figure.effect_map, parts.heads, list(map(str, range(parts.heads.shape[1]))), what="logits",
        title=f"Contributions of heads to {parts.target}", notes=[parts.source],
    )  # fmt: skip
    output.publish(tables, draw)


def weights(
    output: Written,
    head: Annotated[str | None, typer.Argument()] = None,
    token: list[str] | None = None,
    model: ComputedModel = None,
) -> None:
    """What a head looks for and writes, by W_QK and W_OV; copying and previous-token scores of all heads.

    head [LAYER.HEAD]  A head; scores of all without it.
    token              Read the head through this token; may be repeated.

    Examples:
      regard attribute weights
      regard attribute weights 23.3 --token " Mary" --token " cat"
      regard attribute weights --out copying.svg
    """
    from regard.attribution import TokenCircuits
    from regard.output import figure

    if (head is None) != (not token):
        raise OptionError(
            "A head is read through tokens: give both, as in regard attribute weights 23.3 --token ' Mary'."
        )
    chosen = None if head is None else head_named(head)
    circuits = TokenCircuits.of(open_computed(model or CAUSAL, "Reading weights"))
    table = circuits.score_table(output.most(MOST_ROWS)) if chosen is None else circuits.table(*chosen, token or [])
    output.publish([table], partial(figure.weight_scores, circuits.scores, circuits.reader.name))


def project(
    output: Written,
    head: str,
    text: Text,
    of: Literal["queries", "keys", "values"] = "keys",
    colour: Literal["word", "position", "weight"] = "word",
    model: AnyModel = None,
) -> None:
    """The queries, keys or values of a head on their principal components; every line of the text is one text.

    head LAYER.HEAD  The head.
    of               The vectors.
    colour           The colour of a point.

    Examples:
      regard attribute project 2.3 "The kids were scared of the lions." --of keys
      regard attribute project 2.3 --colour weight --out keys.svg - < letter.txt
    """
    from regard.attribution import project as project_head
    from regard.output import figure

    chosen = head_named(head)
    texts = text_input.lines_given(text)
    projected = project_head(open_model(model or USUAL), texts, *chosen, of)
    output.publish([projected.table()], partial(figure.projection, projected, colour=colour))


def head_named(name: str) -> tuple[int, int]:
    """A head by its name, 23.3: layer and head."""
    if not re.fullmatch(r"\d{1,4}\.\d{1,4}", name, re.ASCII):
        raise OptionError(f"{name!r} is not a head; expected layer.head, such as 23.3.")
    layer, _, head = name.partition(".")
    return int(layer), int(head)


app = group(
    "Which heads and tokens an answer comes from, and what a head can do by its weights.",
    r"""  regard attribute lens "The capital of France is" --target " Paris"
  regard attribute logit "When Mary and John went to the store, John gave a drink to" \
      --toward " Mary" --against " John"
  regard attribute weights 23.3 --token " Mary"
  regard attribute project 2.3 "The kids were scared of the lions." --of keys

`regard attribute COMMAND --help` says more about each.""",
    (lens, logit, weights, project),
)
