"""What goes wrong when somebody asks a reading for something, in words."""

from __future__ import annotations

from regard.errors import OptionError, ShapeError, TooLarge, Unsupported
from regard.errors.wording import count, shown, size_in_bytes


def nothing_seen() -> ShapeError:
    """A reading without a single layer."""
    return ShapeError("`seen` holds no layer; a reading needs the attention of at least one.")


def several_sequences(batch: int) -> ShapeError:
    """A batch where one sequence is wanted."""
    return ShapeError(
        f"There are {batch} sequences; a reading is of one.\nChoose one: Reading.of(A.select(batch=0), values[0])."
    )


def does_not_fit(layer: int, what: str, shape: tuple[int, ...], tokens: int, expected: str) -> ShapeError:
    """An attention, values, outputs or states of another text."""
    return ShapeError(
        f"{what} of layer {layer} has shape {shape}; expected {expected} for {count(tokens, 'token')}.\n"
        "Every layer sees all tokens of the text, and each of them is a query and a key."
    )


def not_one_each(what: str, came: int, layers: int, expected: int) -> ShapeError:
    """Outputs, states or blocks that are not one for each layer."""
    return ShapeError(f"`{what}` holds {came} for {count(layers, 'layer')}; expected {expected}, or none.")


def rollout_too_large(tokens: int, needed: int, limit: int) -> TooLarge:
    """The rollout of all tokens of a long text."""
    return TooLarge(
        f"The rollout of {tokens:,} tokens would take {size_in_bytes(needed)}, the limit is {size_in_bytes(limit)}.\n"
        f"Ask for one word, which takes O(n): rollout(query=0); or allow it: rollout(limit={needed})."
    )


def weights_too_large(rows: int, needed: int, limit: int) -> TooLarge:
    """All weights of a long text."""
    return TooLarge(
        f"The weights between {rows:,} words or tokens would take {size_in_bytes(needed)}, the limit is "
        f"{size_in_bytes(limit)}.\nLook at one word, looks(query); at a picture, attention(layer).pooled((512, 512)); "
        f"or allow it: weights(…, limit={needed})."
    )


def no_states() -> Unsupported:
    """Vectors of words where only attention is known."""
    return Unsupported(
        "This reading holds no hidden states, so a word has no vector to compare.\n"
        "Read the text with a model: regard.model().read(text)."
    )


def states_differ(here: int, there: int) -> OptionError:
    """Readings of two models."""
    return OptionError(
        f"The two readings hold {here} and {there} hidden states; expected readings of one and the same model."
    )


def cannot_be_saved(thing: object) -> Unsupported:
    """A mask that is a function."""
    return Unsupported(
        f"A reading whose attention has {shown(thing)} cannot be saved: only numbers and arrays are written to files.\n"
        "Masks of `regard.masks.where` are functions; `regard.masks.allowed(array)` says the same as an array."
    )
