"""How a calculation is written: the names of its steps, and numbers with their decimals, compared with exact ones."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from regard.errors import OptionError, did_you_mean, shown
from regard.tables import printed_number
from regard.trace.arithmetic import precise

# What a name is: a setting, a matrix, an input, or a step with its axes, a head in front of them unless it is HEADLESS;
# and how it is written: English first, which messages use, then German, French, Spanish. The steps are in the order of
# the calculation. Products and quotients of names are read by part.
NAMES = {
    "words": ("setting", "words|word|tokens|sentence|wort|wörter|satz|mot|mots|phrase|palabra|palabras|frase"),
    "query_words": ("setting", "query words"),
    "context_words": ("setting", "context words|key words|memory words"),
    "title": ("setting", "title|note|notes|comment|titel|titre|título"),
    "student": ("setting", "student|name|studentin|étudiant|étudiante|nom|estudiante|alumno|nombre"),
    "heads": ("setting", "heads|number of heads|köpfe|têtes|cabezas"),
    "mask": ("setting", "mask|maske|masque|máscara"),
    "divisor": ("setting", "divisor|divide by|diviseur"),
    "product": ("setting", "product|convention"),
    "W": ("matrix", "w"),
    "W_q": ("matrix", "w q|wq|w^q"),
    "W_k": ("matrix", "w k|wk|w^k"),
    "W_v": ("matrix", "w v|wv|w^v"),
    "W_O": ("matrix", "w o|wo|w^o|w 0"),
    "embedding": ("input", "embeddings|embedding|e|x|vectors|einbettung|einbettungen|vektoren|plongement|plongements|"
        "vecteurs|incrustación|incrustaciones|vectores"),
    "position": ("input", "positions|position|pe|positionen|posición|posiciones"),
    "context": ("input", "context|memory|encoder output|kontext|contexte|contexto"),
    "output_gradient": ("input", "dl/dz|output gradient|gradient of the output"),
    "positioned": ("query width", "positioned|x+position|embedding+position|e+position|mit position|avec position|"
        "con posición"),
    "query": ("query head_dim", "q|query|queries|anfrage|anfragen|abfrage|requête|requêtes|consulta|consultas"),
    "key": ("key head_dim", "k|key|keys|schlüssel|clé|clés|clave|claves"),
    "value": ("key value_dim", "v|value|values|wert|werte|valeur|valeurs|valor|valores"),
    "score": ("query key", "scores|score|qk|q k^t|qk^t|q kt|qkt|punktzahl|punktzahlen|punkte|bewertung|puntuación|"
        "puntaje"),
    "unscaled_weight": ("query key", "unscaled weights|unscaled weight|softmax without √d k|softmax ohne √d k|"
        "softmax sans √d k|softmax sin √d k|softmax(score)"),
    "scaled": ("query key", "scaled|scaled score|scaled scores|skaliert|skalierte punktzahl|mis à l'échelle|"
        "score mis à l'échelle|escalado|puntuación escalada"),
    "masked": ("query key", "masked|masked score|masked scores|maskiert|masqué|enmascarado"),
    "weight": ("query key", "weights|weight|softmax|attention weight|attention weights|probability|gewicht|gewichte|"
        "poids|peso|pesos|wahrscheinlichkeit|probabilité|probabilidad"),
    "weighted_value": ("query key value_dim", "weighted values|weighted value|softmaxxv|gewichteter wert|"
        "gewichtete werte|valeur pondérée|valeurs pondérées|valor ponderado|valores ponderados"),
    "output": ("query value_dim", "outputs|output|sum|z|ausgabe|ergebnis|summe|sortie|sorties|somme|salida|salidas|"
        "suma"),
    "weight_gradient": ("query key", "dl/dw|dl/dweight|weight gradients|weight gradient"),
    "mean_gradient": ("query", "mean gradient|mean|weighted mean|σ w×dl/dw|mittelwert|moyenne|media"),
    "scaled_gradient": ("query key", "dl/ds|dl/dscaled|scaled gradients|scaled gradient|softmax gradient"),
    "score_gradient": ("query key", "dl/dscore|score gradients|score gradient"),
    "concatenated": ("query concatenated_width", "concatenated|concat|concatenation|all heads|verkettet|concaténé|"
        "concatenado"),
    "projected": ("query output_width", "projected|through w o|after w o|result|nach w o|après w o|después de w o"),
}  # fmt: skip
SPELLINGS = {name: spellings for name, (_, spellings) in NAMES.items()}
SETTINGS, MATRICES, INPUTS = (
    tuple(name for name, (kind, _) in NAMES.items() if kind == group) for group in ("setting", "matrix", "input")
)
AXES = {name: tuple(kind.split()) for name, (kind, _) in NAMES.items() if name not in SETTINGS + MATRICES + INPUTS}
STEPS = tuple(AXES)
PER_KEY = tuple(step for step, axes in AXES.items() if axes == ("query", "key"))
HEADLESS = ("positioned", "concatenated", "projected")
WITH_HEAD = {step: axes if step in HEADLESS else ("head", *axes) for step, axes in AXES.items()}
VECTORS = ("embedding", "position", "context", "positioned", "query", "key", "value")  # one per word, for all queries
PROJECTIONS = {"query": "W_q", "key": "W_k", "value": "W_v"}


def fold(name: str) -> str:
    """A name in lower case without accents, with single spaces and one sign for products.

    >>> fold("Score / √d_k"), fold("Étape"), fold("softmax * v")
    ('score/√d k', 'etape', 'softmax×v')
    """
    letters = (part for part in unicodedata.normalize("NFKD", name) if not unicodedata.combining(part))
    plain = re.sub(r"[\s_-]+", " ", "".join(letters).casefold().replace("∂", "d")).strip()
    return re.sub(r"\s*([×*·⋅/+])\s*", lambda match: {"/": "/", "+": "+"}.get(match[1], "×"), plain)


NAME_OF = {fold(spelling): name for name, spellings in SPELLINGS.items() for spelling in spellings.split("|")}
SPELLING_OF = {name: spellings.split("|")[0] for name, spellings in SPELLINGS.items()}
SPELLING_OF |= {name: name for name in MATRICES}
COMBINED = {("query", "key"): "score", ("weight", "value"): "weighted_value"}

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
COMMA = re.compile(r"[+-]?\d*,\d+")
MINUS_INFINITY = {"-inf", "-infinity", "-∞"}
NOT_FINITE = {"nan", "inf", "infinity", "∞"}  # with or without a sign
BLANK = {"", "-", "–", "—", "?", "…", "...", "_", "__", "___"}
DECORATION = "[](){}*`$≈~ \t"
MOST_EXPONENT = 6  # digits of an exponent; more overflow Decimal

SAME = 1e-12  # difference of two float64 results computed in different ways, relative to the larger of them and 1
ALMOST_HALF = 2e-6  # of a last digit: what Regard itself prints as a half may differ from one by 1e-6
ALMOST_WHOLE = 1e-9  # of a last digit: float64 noise of a number that was truncated
STANDS_FOR_MINUS_INFINITY = -1e4  # masked scores are often written −10,000 or −1e9
MOST_DIGITS = 12  # decimals an exact number is shown with


def step_named(name: str) -> str | None:
    """The canonical name for a spelling; None if there is none.

    >>> [step_named(name) for name in ("Score / √d_k", "softmax * v", "score·0.5", "Poids", "∂L/∂w", "cat")]
    ['scaled', 'weighted_value', 'scaled', 'weight', 'weight_gradient', None]
    """
    plain = fold(name)
    if step := NAME_OF.get(plain) or NAME_OF.get(plain.replace(" x ", "x")):
        return step
    first, sign, second = re.fullmatch(r"([^×/]*)([×/]?)(.*)", plain, re.DOTALL).groups()  # type: ignore[union-attr]
    if NAME_OF.get(first) == "score" and re.fullmatch(r"√?\d+(\.\d+)?|√d ?k|sqrt\(d ?k\)", second):
        return "scaled"
    return COMBINED.get((NAME_OF.get(first, ""), NAME_OF.get(second, ""))) if sign == "×" else None


def canonical(name: str, source: str, among: Iterable[str] | None = None) -> str:
    """The canonical name for a spelling, or an error that lists the spellings."""
    step = step_named(name)
    if step is None or (among is not None and step not in among):
        names = [SPELLING_OF[name] for name in (SPELLINGS if among is None else among)]
        raise OptionError(
            f"{source}: unknown name {shown(name)}.{did_you_mean(name.casefold(), names)}\n"
            f"Known names: {', '.join(names)}."
        )
    return step


@dataclass(frozen=True, slots=True)
class Written:
    """A number and the number of decimals it was written with."""

    text: str
    value: float  # −inf for a masked score
    digits: int  # decimals; negative for whole thousands written as 1e3
    least: int = 0  # decimals that a rounded number has at least; 0.2 stands for 0.20 then, and not for 0.24

    @property
    def last_digit(self) -> float:
        """The unit of the last decimal."""
        return 10.0 ** -min(max(self.digits, self.least), 300)


def written(raw: Any, where: str, least: int = 0, *, may_be_masked: bool = False) -> Written:
    """A number from JSON, from a table cell, or from Python; with fewer than `least` decimals it is not rounded.

    >>> written("0.50", "here"), written(2, "here").digits, written("0,42", "here").value
    (Written(text='0.50', value=0.5, digits=2, least=0), 0, 0.42)
    """
    if isinstance(raw, np.generic):
        raw = raw.item()
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise not_a_number(where, raw)
    # Python prints the float 2 as 2.0; the decimal was not written by a person.
    text = repr(raw).removesuffix(".0") if isinstance(raw, float) else str(raw)
    text = text.replace("−", "-").strip(DECORATION)
    if may_be_masked and text.casefold() in MINUS_INFINITY:
        return Written("−∞", -math.inf, 0, least)
    text = text.replace(",", ".") if COMMA.fullmatch(text) else text
    match = NUMBER.fullmatch(text)
    is_named = text.lstrip("+-").casefold() in NOT_FINITE
    if not match and not is_named:
        raise not_a_number(where, raw)
    if not match or (match[2] and len(match[2].lstrip("eE+-")) > MOST_EXPONENT):
        raise not_finite(where, raw)
    number = Decimal(text)
    value = float(number)
    if not math.isfinite(value):
        raise not_finite(where, raw)
    exponent = number.as_tuple().exponent
    digits = min(-exponent, 400) if isinstance(exponent, int) else 0
    return Written(text.replace("-", "−"), value, digits if value else max(digits, 0), least)


def is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip(DECORATION) in BLANK)


def split_numbers(cell: str, where: str) -> list[str]:
    """The numbers in a cell, separated by spaces, semicolons, or commas followed by spaces.

    >>> split_numbers("[1, 0.5; −2]", "here"), split_numbers("0,42 0,5", "here"), split_numbers("1,0,1", "here")
    (['1', '0.5', '−2'], ['0.42', '0.5'], ['1', '0', '1'])
    """
    parts = [part.strip(",") for part in re.split(r"[\s;]+", cell.strip(DECORATION))]
    have_comma = [COMMA.fullmatch(part.replace("−", "-")) is not None for part in parts]
    if have_comma == [True] and not re.fullmatch(r"[+−-]?0?,\d{2,}", parts[0]):
        raise OptionError(  # [1, 0] or 1.0
            f"{where}: {shown(parts[0])} has a decimal comma, or is two numbers; write {parts[0].replace(',', '.')}.\n"
            "Separate several numbers in one cell with spaces."
        )
    numbers: list[str] = []
    for part, has_comma in zip(parts, have_comma, strict=True):
        numbers += [part.replace(",", ".")] if has_comma else [number for number in part.split(",") if number]
    return numbers


# A written number and the exact one


def are_same(left: float, right: float) -> bool:
    """Whether two results are equal up to float64 rounding."""
    if math.isinf(left) or math.isinf(right):
        return left == right
    return abs(left - right) <= SAME * max(1.0, abs(left), abs(right))


def nearness(number: Written, exact: float) -> Literal["right", "rounded", "cut"] | None:
    """How a written number relates to the exact one; a half may be rounded either way.

    >>> [nearness(written(text, ""), 0.155362) for text in ("0.155362", "0.16", "0.15", "0.155", "0.17")]
    ['right', 'rounded', 'cut', 'rounded', None]
    >>> [nearness(written(text, "", 2), 0.197532) for text in ("0.2", "0", "0.3")]
    ['rounded', None, None]
    >>> [nearness(written(text, "", 2), 0.9975) for text in ("1.00", "1.0", "1")]
    ['rounded', 'rounded', None]
    """
    if math.isnan(exact):
        return None
    if math.isinf(exact) or math.isinf(number.value):
        is_same = number.value == exact or (exact == -math.inf and number.value <= STANDS_FOR_MINUS_INFINITY)
        return "right" if is_same else None
    if are_same(number.value, exact):
        return "right"
    if number.digits <= 0 < number.least:  # a bare 0 or 1, which may stand for anything
        return None
    if abs(number.value - exact) <= (0.5 + ALMOST_HALF) * number.last_digit:
        return "rounded"
    lost = abs(exact) - abs(number.value)
    is_other_side = number.value * exact < 0
    return "cut" if 0 < lost < (1 - ALMOST_WHOLE) * number.last_digit and not is_other_side else None


def exactly(value: float, number: Written) -> str:
    """The exact number with two more decimals than were written; fewer if it ends before that.

    >>> exactly(0.155362, Written("0.15", 0.15, 2)), exactly(2.0, Written("3", 3.0, 0))
    ('0.1554', '2')
    """
    digits = min(max(number.digits, number.least, 0) + 2, MOST_DIGITS)
    if not math.isfinite(value) or are_same(value, round(value, digits)):
        return precise(value)
    return printed_number(value, digits)


# Errors


def not_a_number(where: str, raw: object) -> OptionError:
    what = "a formula, not a number" if isinstance(raw, str) and raw.startswith("=") else "not a number"
    return OptionError(f"{where}: {shown(raw)} is {what}; expected one such as 0.5 or −2.")


def not_finite(where: str, raw: object) -> OptionError:
    """NaN, ∞, or a number that overflows."""
    return OptionError(f"{where}: {shown(raw)} is not a finite number; only a masked score may be −∞.")
