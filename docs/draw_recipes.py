"""Draws the figures of docs/how-to/attribution.md and docs/recipes: `python docs/draw_recipes.py NAMES`, or all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import regard
from regard.attribution import answer_question, logit_lens, project, sentence_vector, sinks
from regard.attribution.recipes import QUESTIONS
from regard.output import figure
from regard.output.svg import Svg

FOLDER = Path(__file__).parent / "pictures" / "recipes"
GIFT = "When Mary and John went to the store, John gave a drink to"
KIDS = "The kids were scared of the lions, so they left right away."
TEXTS = [
    KIDS,
    "The cat sat on the mat because it was tired.",
    "Keys on the table belong to Sarah, who left them there in the morning.",
    "Once upon a time there was a king who loved apples, and his garden was full of them.",
    "Love Apple phones; an apple pie is another thing.",
]
PROMPTS, HEADS = {"induction": 50}, {"induction": 20}  # of a question; otherwise 100 and 30


def draw_lens() -> Svg:
    """The logit lens of one prompt."""
    return figure.logit_lens(logit_lens(regard.model("smollm2"), GIFT))


def draw_keys() -> Svg:
    """The keys of one head."""
    return figure.projection(project(regard.model("minilm"), TEXTS[:3], 2, 3, "keys"))


def draw_edge() -> Svg:
    """They → kids."""
    study = sentence_vector(regard.model("minilm"), KIDS, "they", "kids")
    sys.stdout.write(f"{study.table(12)}\n\n")
    return figure.recipe(study)


def draw_sinks(name: str) -> Svg:
    """The first token cut off."""
    study = sinks(regard.model(name), TEXTS)
    sys.stdout.write(f"{study.table(12)}\n\n")
    return figure.recipe(study)


def draw_question(name: str) -> Svg:
    """One question about SmolLM2."""
    study = answer_question(regard.model("smollm2"), name, PROMPTS.get(name, 100), heads=HEADS.get(name, 30))
    sys.stdout.write(f"{study.table(15)}\n\n")
    return figure.recipe(study)


PICTURES: dict[str, Callable[[], Svg]] = {
    "lens": draw_lens,
    "keys": draw_keys,
    "they-kids": draw_edge,
    "sinks-minilm": partial(draw_sinks, "minilm"),
    "sinks-smollm2": partial(draw_sinks, "smollm2"),
    **{name: partial(draw_question, name) for name in QUESTIONS},
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for chosen in sys.argv[1:] or PICTURES:
        PICTURES[chosen]().save(FOLDER / f"{chosen}.svg")
