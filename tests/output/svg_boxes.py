"""Bounding boxes of the texts of a figure, by the same estimate of width that the figures use."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

from regard.output.characters import text_width

SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]


class Box(NamedTuple):
    text: str
    corners: tuple[Point, ...]


def boxes(svg: str) -> list[Box]:
    return list(_boxes(ElementTree.fromstring(svg), 0.0, 0.0))


def _boxes(element: ElementTree.Element, dx: float, dy: float) -> Iterator[Box]:
    moved = re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    if moved:
        dx, dy = dx + float(moved[1]), dy + float(moved[2])
    if element.tag == SVG + "text":
        yield _box(element, dx, dy)
    for child in element:
        yield from _boxes(child, dx, dy)


def _box(element: ElementTree.Element, dx: float, dy: float) -> Box:
    x, y, size = (float(element.get(name, "0")) for name in ("x", "y", "font-size"))
    words = "".join(element.itertext())
    width = text_width(words, size, element.get("font-weight") == "bold")
    left = x - width * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor", "start")]
    corners = [
        (left, y - 0.74 * size),
        (left + width, y - 0.74 * size),
        (left + width, y + 0.2 * size),
        (left, y + 0.2 * size),
    ]
    turned = re.fullmatch(r"rotate\((\S+) (\S+) (\S+)\)", element.get("transform", ""))
    if turned:
        angle, cx, cy = math.radians(float(turned[1])), float(turned[2]), float(turned[3])
        corners = [
            (cx + (px - cx) * math.cos(angle) - (py - cy) * math.sin(angle),
             cy + (px - cx) * math.sin(angle) + (py - cy) * math.cos(angle))
            for px, py in corners
        ]  # fmt: skip
    return Box(words, tuple((px + dx, py + dy) for px, py in corners))


def overlaps(found: list[Box]) -> list[tuple[str, str]]:
    """Pairs of texts that touch."""
    return [(one.text, other.text) for one, other in combinations(found, 2) if _touch(one.corners, other.corners)]


def outside(found: list[Box], svg: str) -> list[str]:
    """Texts that reach past the edge of the figure."""
    _, _, width, height = map(float, ElementTree.fromstring(svg).get("viewBox", "").split())
    return [box.text for box in found if any(not (0 <= x <= width and 0 <= y <= height) for x, y in box.corners)]


def _touch(one: tuple[Point, ...], other: tuple[Point, ...]) -> bool:
    """Whether two convex shapes overlap: unless a line parallel to a side separates them."""
    if math.dist(one[0], other[0]) > math.dist(one[0], one[2]) + math.dist(other[0], other[2]):
        return False
    for shape in (one, other):
        for (ax, ay), (bx, by) in zip(shape, shape[1:] + shape[:1], strict=True):
            normal = (by - ay, ax - bx)
            spans = [[x * normal[0] + y * normal[1] for x, y in corners] for corners in (one, other)]
            if max(spans[0]) <= min(spans[1]) or max(spans[1]) <= min(spans[0]):
                return False
    return True
