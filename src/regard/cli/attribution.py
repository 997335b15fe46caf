"""`regard attribute` and `recipe`: which heads an answer comes from; what silencing heads or blocking edges changes."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli import text_input
from regard.cli.commands import Writes, group
from regard.cli.options import (
    CAUSAL,
    MOST_ROWS,
    USUAL,
    WITH_PARQUET,
    AnyModel,
    ComputedModel,
    Seed,
    Text,
    open_computed,
    open_model,
)
from regard.cli.outputs import Output
from regard.errors import OptionError

if TYPE_CHECKING:
    from regard.attribution.recipes import GridStudy, HeadStudy

Written = Annotated[Output, Writes(WITH_PARQUET)]
Prompts = Annotated[int, typer.Option(min=2, help="How many prompts are generated.")]


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


def question(
    output: Written,
    name: str,
    prompts: Prompts = 100,
    heads: Annotated[int | None, typer.Option(min=2)] = None,
    seed: Seed = 0,
    model: AnyModel = None,
) -> None:
    """Silence every head in turn and measure the answer to generated prompts; minutes with all 100.

    name   indirect-objects, induction, pronouns or agreement.
    heads  Silence only so many: half by their first-order estimates, half at random.
    seed   Decides which prompts.

    Examples:
      regard recipe question indirect-objects --prompts 20
      regard recipe question agreement --out agreement.svg --out agreement.csv

    indirect-objects   "When Mary and John went to the store, John gave a drink to"
    induction          "... river house ... river": house again
    pronouns           "My friend Mary lives near the park, and": she, not he
    agreement          "The key near the doors": is, not are
    """
    from regard.attribution import answer_question
    from regard.attribution.recipes import check_name

    check_name(name)
    publish(answer_question(open_model(model or CAUSAL), name, prompts, seed=seed, heads=heads), output)


def circuit(output: Written, prompts: Prompts = 100, seed: Seed = 0, model: AnyModel = None) -> None:
    """Patch the previous-token heads from corrupted texts: without them, induction heads find nothing.

    seed  Decides which prompts.

    Examples:
      regard train induction --heads 1 --out trained/induction
      regard recipe circuit --model trained/induction
    """
    from regard.attribution import induction_circuit

    publish(induction_circuit(open_model(model or CAUSAL), prompts, seed=seed), output)


def sinks(output: Written, text: str, model: AnyModel = None) -> None:
    """Cut off the first token, which takes most of the weight in many heads, in each layer and in all.

    text  A text, or one per line; - reads them from standard input.

    Examples:
      regard recipe sinks "The cat sat on the mat because it was tired."
      regard recipe sinks - --model smollm2 --out sinks.svg < lines.txt
    """
    from regard.attribution import sinks as block_sinks

    texts = text_input.lines_given(text)
    publish(block_sinks(open_model(model or USUAL), texts), output)


def edge(output: Written, text: Text, query: str, key: str, model: AnyModel = None) -> None:
    """Block one edge in each head in turn, and measure how far the text's vector moves.

    query  The word that attends.
    key    The word that it attends to.

    Examples:
      regard recipe edge "The kids were scared of the lions, so they left." they kids
    """
    from regard.attribution import sentence_vector

    publish(sentence_vector(open_model(model or USUAL), text_input.text_given(text), query, key), output)


def patch(output: Written, text: str, other: str, toward: str, against: str, model: AnyModel = None) -> None:
    r"""Put another prompt's residual stream into this one's, at every layer and token, and measure the answer.

    text     A prompt.
    other    Another prompt of equally many tokens.
    toward   The next token whose logit is measured.
    against  The token whose logit is subtracted.

    Examples:
      regard recipe patch "When Mary and John met, John gave a drink to" \
          "When Mary and John met, Mary gave a drink to" " Mary" " John" --out patch.svg
    """
    from regard.attribution import patching

    publish(patching(open_model(model or CAUSAL), text, other, toward, against), output)


def patch_heads(
    output: Written,
    text: str,
    other: str,
    toward: Annotated[str | None, typer.Argument()] = None,
    against: Annotated[str | None, typer.Argument()] = None,
    model: AnyModel = None,
) -> None:
    r"""Put each head's output for another prompt into this one, and measure the answer, or the text's vector.

    text     A prompt.
    other    Another prompt of equally many tokens.
    toward   The next token whose logit is measured.
    against  The token whose logit is subtracted.

    Examples:
      regard recipe patch-heads "When Mary and John met, John gave a drink to" \
          "When Mary and John met, Mary gave a drink to" " Mary" " John" --out heads.svg
      regard recipe patch-heads "The kids were scared of the lions, so they left." \
          "The lions were scared of the kids, so they left." --out heads.csv
    """
    from regard.attribution.head_patching import head_patching

    reader = open_model(model or (USUAL if toward is None else CAUSAL))
    publish(head_patching(reader, text, other, toward, against), output)


def publish(study: HeadStudy | GridStudy, output: Output) -> None:
    """Print and write the table and figure of a study."""
    from regard.output import figure

    output.publish([study.table(output.most(MOST_ROWS))], partial(figure.recipe, study))


attribute = group(
    "Which heads and tokens an answer comes from, and what a head can do by its weights.",
    r"""  regard attribute lens "The capital of France is" --target " Paris"
  regard attribute logit "When Mary and John went to the store, John gave a drink to" \
      --toward " Mary" --against " John"
  regard attribute weights 23.3 --token " Mary"
  regard attribute project 2.3 "The kids were scared of the lions." --of keys

`regard attribute COMMAND --help` says more about each.""",
    (lens, logit, weights, project),
)
recipe = group(
    "Questions about a model, answered by silencing heads or blocking edges, with controls.",
    """  regard recipe question indirect-objects --prompts 20
  regard recipe edge "The kids were scared of the lions, so they left." they kids""",
    (question, circuit, sinks, edge, patch, patch_heads),
)
