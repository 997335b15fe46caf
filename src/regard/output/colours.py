"""Two colour maps, computed in OKLab so that equal steps look equal, and safe for colour-blind readers.

`sequential`, for weights, goes from nearly white through green and teal to navy with falling lightness, so lightness
alone distinguishes values. `diverging`, for signed numbers, goes from orange-brown through white to blue, two hues that
all common kinds of colour blindness keep apart.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

Rgb = tuple[int, int, int]
Lab = tuple[float, float, float]

STEPS = 256
INK = "#1b1f27"
ON_LIGHT, ON_DARK = "#000000", "#ffffff"  # text in cells; only pure black has a contrast of 4.5 on every colour
MUTED, RULE, HIDDEN = "#5b6472", "#c9ced6", "#e6e8ec"  # secondary text, thin lines, masked cells
ACCENT, ACCENT_SOFT = "#1d4f91", "#e8eef7"

# (lightness, chroma, hue in degrees)
_SEQUENTIAL = ((0.985, 0.010, 110), (0.90, 0.065, 145), (0.77, 0.095, 185), (0.60, 0.105, 230), (0.42, 0.105, 258),
               (0.27, 0.085, 272))  # fmt: skip
_NEGATIVE = ((0.985, 0.004, 70), (0.80, 0.095, 65), (0.62, 0.130, 52), (0.45, 0.115, 42))
_POSITIVE = ((0.985, 0.004, 250), (0.80, 0.080, 245), (0.62, 0.120, 250), (0.45, 0.125, 258))


def sequential(share: float) -> str:
    """The colour of a share between 0 and 1; values outside take the nearer end.

    >>> sequential(0), sequential(1)
    ('#fafbf3', '#19214f')
    """
    return hexadecimal(rgb(share))


def diverging(share: float) -> str:
    """The colour of a signed share between −1 and 1; 0 is nearly white."""
    table = _table(_NEGATIVE if share < 0 else _POSITIVE)
    return hexadecimal(table[_step(abs(share))])


def rgb(share: float) -> Rgb:
    """The colour of a share between 0 and 1 as red, green and blue up to 255."""
    return _table(_SEQUENTIAL)[_step(share)]


def ink_on(colour: str) -> str:
    """Black or white text, whichever has the higher contrast on this colour.

    >>> ink_on("#ffffff"), ink_on("#12203f")
    ('#000000', '#ffffff')
    """
    return max((ON_LIGHT, ON_DARK), key=lambda ink: contrast(ink, colour))


def contrast(first: str, other: str) -> float:
    """The contrast ratio of the accessibility guidelines (WCAG), from 1 to 21; small text needs 4.5.

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    darker, lighter = sorted((_luminance(first), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def hexadecimal(colour: Rgb) -> str:
    """As #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _step(share: float) -> int:
    return 0 if math.isnan(share) else round(min(max(share, 0.0), 1.0) * (STEPS - 1))


@cache
def _table(anchors: tuple[tuple[float, float, float], ...]) -> tuple[Rgb, ...]:
    """Colours at even distances along the path through the anchors."""
    fine = [_between(anchors, step_number / 1000) for step_number in range(1001)]
    lengths = [0.0]
    for here, there in pairwise(fine):
        lengths.append(lengths[-1] + math.dist(here, there))
    colours, step_number = [], 0
    for step in range(STEPS):
        target = lengths[-1] * step / (STEPS - 1)
        while step_number < 1000 and lengths[step_number] < target - 1e-12:
            step_number += 1
        colours.append(_to_rgb(fine[step_number]))
    return tuple(colours)


def _between(anchors: tuple[tuple[float, float, float], ...], share: float) -> Lab:
    at = share * (len(anchors) - 1)
    first = min(int(at), len(anchors) - 2)
    part = at - first
    ends = (
        (lightness, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue)))
        for lightness, chroma, hue in anchors[first : first + 2]
    )
    lightness, a, b = (start + (other - start) * part for start, other in zip(*ends, strict=True))
    return lightness, a, b


def _to_rgb(lab: Lab) -> Rgb:
    """OKLab to sRGB (Björn Ottosson, 2020)."""
    lightness, a, b = lab
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    red, green, blue = (round(255 * _encoded(min(max(part, 0.0), 1.0))) for part in linear)
    return red, green, blue


def _encoded(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055


def _luminance(colour: str) -> float:
    parts = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
