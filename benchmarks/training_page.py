"""The page TRAINING.md from the numbers of training.json."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from training_step import LARGE, NANOGPT, OURS


def page(found: dict[str, Any]) -> str:
    """All of TRAINING.md."""
    about = found.get("machine", {})
    versions = about.get("versions", {})
    lines = [
        "# Training: measured", "",
        *prose(
            f"{about.get('processor')}, {about.get('cores')} cores, PyTorch {versions.get('torch')}. "
            "`benchmarks/training.py` writes this page from training.json."
        ),
    ]  # fmt: skip
    for part in (_speed, _text, _lookup, _relations, _induction, _others, _compared, _zoology):
        lines += part(found)
    measured = {*found.get("tasks", {}), *found}
    earlier = {name: text for name, text in found.get("earlier", {}).items() if name not in measured}
    if earlier:
        lines += ["## Measured before", "", *prose("With an earlier version, on a machine that other programs used.")]
        lines += [line for text in earlier.values() for line in (*text, "")]
    return "\n".join(lines).rstrip() + "\n"


def prose(text: str) -> list[str]:
    """A paragraph in lines, and an empty line."""
    return [*wrap(text, 130, break_on_hyphens=False), ""]


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _speed(found: dict[str, Any]) -> list[str]:
    titles = {
        LARGE: "Speed of a step: 4 layers, 8 heads, width 512, 1,024 tokens",
        NANOGPT: "Speed of nanoGPT's CPU recipe: 4 layers, 4 heads, width 128, 12 × 64 characters",
    }
    lines: list[str] = []
    for case, title in titles.items():
        if case not in found.get("speed", {}):
            continue
        measured = found["speed"][case]
        rows = [
            [peer, f"{row['wall'] * 1e3:.1f} ms", f"{row['cpu'] * 1e3:.1f} ms", f"{row['tokens_per_second']:,.0f}",
             f"{row['loss']:.5f}"]
            for peer, row in measured["rows"].items()
        ]  # fmt: skip
        ours = measured["rows"][OURS]
        low, high = ours["quartiles"]
        lines += [
            f"## {title}", "",
            *prose(
                "A batch, forward, backward, clipping and AdamW: the loop of `regard train` against nanoGPT's loop and "
                "model on PyTorch's `scaled_dot_product_attention`, eager. Both have the same initial weights and "
                f"batches, each its own process; {measured['steps']} steps in turns of "
                f"{measured['turn']}, nothing else running, {measured['day']}."
            ),
            *table(["", "wall per step", "CPU per step", "tokens per second", "loss at the end"], rows),
            *prose(
                f"Regard is {ours['times_as_fast']:.2f} times as fast (median over the turns; quartiles {low:.2f} and "
                f"{high:.2f}). The losses differ by at most {ours['loss_difference']:.1e} at any step."
            ),
        ]  # fmt: skip
    return lines


def _runs(found: dict[str, Any], name: str) -> dict[str, Any]:
    runs: dict[str, Any] = found.get("tasks", {}).get(name, {})
    return dict(sorted(runs.items()))


def _time(run: dict[str, Any]) -> list[str]:
    return [f"{run['cpu']:.0f} s", "–" if run["wall"] is None else f"{run['wall']:.0f} s"]


TIME = ["CPU time", "wall time"]
NOTE = prose(
    "`regard train TASK --seed S`, the whole command; accuracy and heads on 1,024 test sequences that training never "
    "shows. A head is right where its largest weight is on the right key. Wall times only where nothing else ran."
)


def _text(found: dict[str, Any]) -> list[str]:
    runs = _runs(found, "text")
    if not runs:
        return []
    rows = [[seed, f"{run['loss']:.3f}", *_time(run)] for seed, run in runs.items()]
    return [
        "## `text`: tinyshakespeare with nanoGPT's CPU recipe, 2,000 steps", "",
        "Validation loss over the whole last tenth of the text; nanoGPT's README reports 1.88.", "",
        *table(["seed", "validation loss", *TIME], rows),
    ]  # fmt: skip


def _lookup(found: dict[str, Any]) -> list[str]:
    runs = _runs(found, "lookup")
    if not runs:
        return []
    rows = []
    for seed, run in runs.items():
        (before,), (after,) = run["untrained"].values(), run["trained"].values()
        rows.append([seed, f"{run['accuracy']:.3f}", f"{before:.2f}", f"{after:.2f}", *_time(run)])
    header = ["seed", "accuracy", "best head untrained", "best head trained", *TIME]
    return ["## `lookup`, 32 pairs", "", *NOTE, *table(header, rows)]


def _relations(found: dict[str, Any]) -> list[str]:
    runs = _runs(found, "relations")
    if not runs:
        return []
    names = list(next(iter(runs.values()))["trained"])
    rows = [
        [seed, f"{run['accuracy']:.3f}", *(f"{run['trained'][name]:.2f}" for name in names), *_time(run)]
        for seed, run in runs.items()
    ]
    untrained = max(max(run["untrained"].values()) for run in runs.values())
    return [
        "## `relations`", "",
        "Accuracy on combinations of words that no training passage contains, and for each relation the best head.", "",
        *table(["seed", "accuracy", *names, *TIME], rows), f"Untrained, no head is above {untrained:.2f}.", "",
    ]  # fmt: skip


def _induction(found: dict[str, Any]) -> list[str]:
    runs = _runs(found, "induction")
    if not runs:
        return []
    rows = []
    for seed, run in runs.items():
        without, groups = run["without"], run["groups"]
        rows.append([
            seed, f"{run['accuracy']:.3f}",
            *(f"{run['untrained'][name]:.2f} → {run['trained'][name]:.2f}" for name in ("previous token", "induction")),
            *(_without(without[name], groups[name]) for name in ("previous", "induction", "others")), *_time(run),
        ])  # fmt: skip
    header = ["seed", "accuracy", "best previous-token head", "best induction head", "without previous-token heads",
              "without induction heads", "without all others", *TIME]  # fmt: skip
    return [
        "## `induction`", "",
        *prose(
            "Best heads untrained → trained. A previous-token head of layer 0 has its largest weight on the token "
            "before, counted where that matters (at right keys); an induction head of layer 1 on the token after the "
            "first occurrence. A head belongs to its group from 0.5 on. *Without*: accuracy with the heads of a group "
            "silenced, in brackets how many they are; guessing among the 32 tokens of a sequence gives 0.03."
        ),
        *table(header, rows),
    ]  # fmt: skip


def _without(accuracy: float | None, count: int) -> str:
    return "none" if accuracy is None else f"{accuracy:.3f} ({count})"


def _others(found: dict[str, Any]) -> list[str]:
    rows = []
    for name in ("copy", "sort", "facts"):
        for seed, run in _runs(found, name).items():
            before, after = (min(run[when].values()) for when in ("untrained", "trained"))
            rows.append([f"`{name}`", seed, f"{run['accuracy']:.3f}", f"{before:.2f}", f"{after:.2f}", *_time(run)])
    if not rows:
        return []
    header = ["task", "seed", "accuracy", "best head untrained", "best head trained", *TIME]
    return ["## `copy`, `sort` and `facts`", "", *table(header, rows)]


def _spread(values: list[float]) -> list[str]:
    return [f"{sum(values) / len(values):.3f}", f"{min(values):.3f}", f"{max(values):.3f}", str(len(values))]


SPREAD = ["mean", "lowest", "highest", "seeds"]


def _compared(found: dict[str, Any]) -> list[str]:
    runs = found.get("compare", {})
    if not runs:
        return []
    rows = [
        [name, f"{next(iter(seeds.values()))['parameters']:,}", *_spread([run["accuracy"] for run in seeds.values()])]
        for name, seeds in runs.items()
    ]
    return [
        "## Networks with the same number of parameters on `lookup`", "",
        *prose(
            "`regard compare lookup --steps 1200 --set pairs=8,vocabulary=64,batch=16`. Recipe and number of steps "
            "were chosen for attention, not tuned for each network."
        ),
        *table(["network", "parameters", *SPREAD], rows),
    ]  # fmt: skip


def _zoology(found: dict[str, Any]) -> list[str]:
    lengths = found.get("zoology", {})
    if not lengths:
        return []
    rows = [
        [length, network, f"{next(iter(seeds.values()))['parameters']:,}",
         *_spread([run["accuracy"] for run in seeds.values()])]
        for length, networks in sorted(lengths.items(), key=lambda item: int(item[0]))
        for network, seeds in networks.items()
    ]  # fmt: skip
    return [
        "## Multi-query associative recall as in Zoology", "",
        *prose(
            "`regard compare lookup --zoology --set length=LENGTH`: two layers of width 64 without feed-forward parts, "
            "a vocabulary of 8,192, one pair per 16 tokens (Arora et al., 2023). The gated convolution is BaseConv. "
            "The feed-forward network has hidden layers of width 64 over the flattened window; it is not in the paper."
        ),
        *table(["length", "network", "parameters", *SPREAD], rows),
    ]  # fmt: skip
