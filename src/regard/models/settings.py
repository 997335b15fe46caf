"""The settings of a model as in config.json, each checked by type and range when read; families of architectures."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from regard.errors import unsupported
from regard.models.errors import BrokenFile, broken

Kind = Literal["bert", "llama", "gpt2"]

# By family (model_type of transformers): the prefix of its classes, such as BertModel, and the module that reads it.
FAMILIES: dict[str, tuple[str, Kind]] = {
    "bert": ("Bert", "bert"),
    "roberta": ("Roberta", "bert"),
    "xlm-roberta": ("XLMRoberta", "bert"),
    "camembert": ("Camembert", "bert"),
    "distilbert": ("DistilBert", "bert"),
    "llama": ("Llama", "llama"),
    "mistral": ("Mistral", "llama"),
    "qwen2": ("Qwen2", "llama"),
    "qwen3": ("Qwen3", "llama"),
    "gpt2": ("GPT2", "gpt2"),
}

LARGEST = 2**31 - 1  # no count or size in a model is larger
REQUIRED: Final = object()  # as a default: the setting must be present
REFUSED: Final = object()  # for null: transformers does not accept null for this setting

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60

ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_python_tanh": "gelu_tanh", "silu": "silu",
    "swish": "silu", "tanh": "tanh", "quick_gelu": "quick_gelu",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Settings:
    """Values by name, and the file they come from.

    Each method takes the name, the default for a missing setting, and (`null`) the value of an explicit null; without
    `null`, null is refused.
    """

    values: Mapping[str, Any]
    path: Path
    within: str = ""  # the name of the object these values are in, for messages

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def integer(
        self, name: str, default: Any = REQUIRED, *, null: Any = REFUSED, least: int = 1, most: int = LARGEST
    ) -> Any:
        """An integer from `least` to `most`."""
        expected = f"an integer from {least} to {most}"
        return self._checked(name, default, null, expected, lambda value: type(value) is int and least <= value <= most)

    def number(
        self, name: str, default: Any = REQUIRED, *, null: Any = REFUSED, least: float = 0.0, above: bool = True
    ) -> Any:
        """A finite number above `least`, or from `least` on, as a float."""

        def fits(value: Any) -> bool:
            if type(value) not in (int, float) or not -1e300 < value < 1e300:  # an integer may not fit a float
                return False
            return bool(value > least if above else value >= least)

        number = self._checked(name, default, null, f"a finite number {'above' if above else 'from'} {least:g}", fits)
        return float(number) if type(number) is int else number

    def flag(self, name: str, default: bool, *, null: Any = REFUSED) -> bool:
        """true or false."""
        flag: bool = self._checked(name, default, null, "true or false", lambda value: type(value) is bool)
        return flag

    def text(self, name: str, default: Any = REQUIRED, *, null: Any = REFUSED) -> Any:
        """A string."""
        return self._checked(name, default, null, "a string", lambda value: isinstance(value, str))

    def activation(self, name: str, default: str) -> str:
        """Regard's name of an activation function."""
        expected = f"one of {', '.join(ACTIVATIONS)}"
        name = self._checked(name, default, REFUSED, expected, lambda value: value in list(ACTIVATIONS))
        return ACTIVATIONS[name]

    def strings(self, name: str, count: int) -> list[str] | None:
        """A list of `count` strings; None where it is missing or null."""
        strings: list[str] | None = self._list(name, None, count, "strings", lambda part: isinstance(part, str))
        return strings

    def numbers(self, name: str, count: int) -> list[float]:
        """A list of `count` positive numbers."""

        def fits(value: Any) -> bool:
            return type(value) in (int, float) and 0 < value < 1e300

        return [float(number) for number in self._list(name, REQUIRED, count, "positive numbers", fits)]

    def _list(self, name: str, default: Any, count: int, what: str, fits: Callable[[Any], bool]) -> Any:
        null = REFUSED if default is REQUIRED else default
        return self._checked(
            name, default, null, f"a list of {count} {what}",
            lambda value: isinstance(value, list) and len(value) == count and all(map(fits, value)),
        )  # fmt: skip

    def part(self, name: str) -> Settings:
        """The settings of an object inside these; empty where it is missing or null."""
        settings = self._checked(name, {}, {}, "an object", lambda value: isinstance(value, dict))
        return Settings(settings, self.path, f"{self.within}{name}.")

    def one_name(self, *names: str) -> str:
        """The name that is used, of several for one setting; two of them must not contradict each other."""
        there = [name for name in names if name in self.values]
        if len({repr(self.values[name]) for name in there}) > 1:
            raise self.fault(f"its settings {' and '.join(map(repr, there))} mean the same and differ")
        return there[0] if there else names[0]

    def fault(self, why: str) -> BrokenFile:
        """An error about the file."""
        return broken(self.path, why)

    def _checked(self, name: str, default: Any, null: Any, expected: str, fits: Callable[[Any], bool]) -> Any:
        if name not in self.values:
            if default is REQUIRED:
                raise self.fault(f"it has no setting '{self.within}{name}', {expected}")
            return default
        value = self.values[name]
        if value is None and null is not REFUSED:
            return null
        if not fits(value):
            raise self.fault(f"its setting '{self.within}{name}' is {_shown(value)}; expected {expected}")
        return value


def _shown(value: Any) -> str:
    """A value in a message, shortened."""
    return "null" if value is None else _SHORT.repr(value)


def family_of(architecture: str, config: Mapping[str, Any], path: Path) -> str:
    """The family named by the class and by model_type in the settings, which must agree."""
    named = architecture.lower() if architecture.lower() in FAMILIES else None
    for family, (prefix, _) in FAMILIES.items():
        if re.fullmatch(rf"{prefix}(Model|LMHeadModel|For[A-Z]\w*)", architecture):
            named = family
    if named is None:
        prefixes = ", ".join(prefix for prefix, _ in FAMILIES.values())
        raise unsupported(f"The architecture {architecture[:80]} of {path}", f"Known are {prefixes}.")
    stated = config.get("model_type", named)
    if stated != named:
        raise unsupported(
            f"A {architecture[:80]} whose model_type is {str(stated)[:80]!r} in {path}",
            "Both must name the same family: check config.json.",
        )
    return named
