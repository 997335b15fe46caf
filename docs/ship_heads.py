"""Make a shipped file of regard/heads/shipped: `ship_heads.py heads.json OUT "about the texts"`.

heads.json is what `regard heads treebank … --out heads.json` wrote.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard import atomic_file
from regard.heads.roles import is_telling
from regard.heads.treebank_relations import Interval, Score, usual_directions

FORMAT = 1
KEPT = 6  # relations per head in a shipped file
DIGITS = 5  # more than are printed: rounded twice, 0.3446 would become 0.35


def compact(data: dict[str, Any], source: str) -> str:
    """The content of a shipped file, from what `regard heads treebank … --out heads.json` wrote."""
    best = {(row["relation"], row["direction"]): row for row in data["relations"]}
    scores = usual_directions([_score_of(row) for row in data["relations"]])
    rows = {(score.relation, score.direction): row for row, score in enumerate(scores)}
    by_head: list[list[Any]] = []
    kept: Counter[tuple[int, int]] = Counter()
    for head_row in data["by_head"]:
        key, head = (head_row["relation"], head_row["direction"]), (head_row["layer"], head_row["head"])
        if key in rows and kept[head] < KEPT and is_telling(head_row, best[key]):
            kept[head] += 1
            accuracy = Interval(**head_row["accuracy"])
            by_head.append([rows[key], *head, *_rounded(*accuracy, head_row["choosing_gain"])])
    labels = [
        [[[label["pattern"], round(label["score"], DIGITS)] for label in head] for head in layer]
        for layer in data["labels"]
    ]
    content = {
        "format": FORMAT, "model": data["model"], "weights": data["weights"], "heads": data["heads"], "source": source,
        "labels": labels, "relations": [_relation(score) for score in scores], "by_head": by_head,
    }  # fmt: skip
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_lines(part)}" for name, part in content.items()) + "\n}\n"


def _lines(part: Any) -> str:
    """JSON with one row of a table per line, so that changes can be compared."""
    if not isinstance(part, list):
        return json.dumps(part, ensure_ascii=False)
    rows = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in part]
    return "[\n" + ",\n".join(rows) + "\n]"


def _score_of(row: dict[str, Any]) -> Score:
    cells: dict[str, Any] = {name: row[name] for name in Score._fields}
    cells |= {name: Interval(**cell) for name, cell in cells.items() if isinstance(cell, dict)}
    return Score(**cells)


def _relation(score: Score) -> list[Any]:
    untrained = [None] if score.untrained is None else _rounded(score.untrained.value)
    return [
        *score[:5], *_rounded(*score.accuracy), score.offset, *_rounded(score.offset_accuracy.value), *untrained,
        score.queries, *_rounded(score.choosing_gain), score.is_named,
    ]  # fmt: skip


def _rounded(*numbers: float) -> Iterator[float]:
    return (round(number, DIGITS) for number in numbers)


def main(arguments: Sequence[str]) -> None:
    """Make a shipped file: heads.json, the file to write, and a line about the texts."""
    data = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    atomic_file.write(arguments[1], compact(data, arguments[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
