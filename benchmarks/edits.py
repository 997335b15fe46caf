"""Interventions: python benchmarks/edits.py [--rounds N] [--tokens N] [--threads N]; writes EDITS.md.

1. A Llama-shaped model reads 8,192 tokens: plain (sdpa), with one head silenced, with 1,000 edges blocked in every
   layer. Each way has a process of its own; they take turns. Peaks come from these processes, which run nothing else.
   Times are of the clock and of the processor: with one thread, other programs hardly change the second.
2. The effect of silencing each of MiniLM's 72 heads on 100 sentences: `regard.edits.effect`, against transformers with
   a hook on W_O's input, one forward per head over one padded batch, and one forward per head and sentence.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import machine

PAGE = Path(__file__).parent / "EDITS.md"
TURNS = Path(__file__).parent / "edits.json"  # what was measured last of each part
LAYERS, HEADS, KEY_HEADS, HEAD_DIM = 2, 16, 4, 64
EDGES = 1000
WAYS = ("sdpa", "one head silenced", "1,000 edges blocked")
EFFECTS = ("regard.edits.effect", "hooks, one batch", "hooks, one sentence at a time")
MOST_TIME = {WAYS[1]: 1.10, WAYS[2]: 1.15}
MOST_MEMORY = 1.15
LEAST_GAIN = {EFFECTS[1]: 1.7, EFFECTS[2]: 5.0}


def llama(tokens: int) -> tuple[Any, Any]:
    import torch
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    width = HEADS * HEAD_DIM
    config = LlamaConfig(
        vocab_size=1000, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, max_position_embeddings=tokens,
        attn_implementation="sdpa",
    )  # fmt: skip
    return LlamaModel(config).eval(), torch.randint(0, 1000, (1, tokens))


def way(name: str, tokens: int) -> Callable[[bool], None]:
    """What one process repeats; with True a short text, to warm up."""
    import numpy as np
    import torch

    import regard
    from regard.edits import block, silence

    model, ids = llama(tokens)
    random = np.random.default_rng(0)
    queries = random.integers(1, tokens, EDGES)
    pairs = [(int(query), int(random.integers(0, query + 1))) for query in queries]
    edit = {WAYS[0]: None, WAYS[1]: silence((LAYERS // 2, 3)), WAYS[2]: block(pairs=pairs)}[name]
    short = block(pairs=[(5, 3)]) if name == WAYS[2] else edit

    def run(is_warm_up: bool) -> None:
        with torch.inference_mode():
            if edit is None:
                model(ids[:, :256] if is_warm_up else ids, use_cache=False)
                return
            with regard.watch(model, keep=None, edit=short if is_warm_up else edit):
                model(ids[:, :256] if is_warm_up else ids, use_cache=False)

    return run


def effects(name: str) -> Callable[[bool], None]:
    import regard
    from regard.edits import each_head, effect, vector_distance
    from regard.models import store

    sentences = texts()
    if name == EFFECTS[0]:
        minilm = regard.model("minilm")

        def measure(is_warm_up: bool) -> None:
            some = 5 if is_warm_up else len(sentences)
            effect(minilm, sentences[:some], each_head(minilm), on=vector_distance())

        return measure
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = store.find("minilm")
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    is_batch = name == EFFECTS[1]
    batches = [tokenizer(part, return_tensors="pt", padding=True) for part in ([sentences] if is_batch else sentences)]
    short = [tokenizer(sentences[:5], return_tensors="pt", padding=True)]

    def run(is_warm_up: bool) -> None:
        with torch.inference_mode():
            for layer, head in [(layer, 5) for layer in range(6)]:  # one per layer: all heads of a layer cost the same
                dense = model.encoder.layer[layer].attention.output.dense

                def zero(_module: Any, args: Any, head: int = head) -> Any:
                    args[0][..., head * 32 : head * 32 + 32] = 0

                handle = dense.register_forward_pre_hook(zero)
                for batch in short if is_warm_up else batches:
                    states = model(**batch).last_hidden_state
                    mask = batch["attention_mask"][..., None]
                    (states * mask).sum(1) / mask.sum(1)
                handle.remove()

    return run


def texts() -> list[str]:
    """100 sentences of 8 to 40 words."""
    import numpy as np

    words = [
        "the", "cat", "sat", "on", "a", "mat", "because", "it", "was", "tired", "and", "kids", "were", "scared", "of",
        "lions", "so", "they", "left", "right", "away", "today",
    ]  # fmt: skip
    random = np.random.default_rng(0)
    return [" ".join(random.choice(words, random.integers(8, 41))) + "." for _ in range(100)]


class Turns(NamedTuple):
    """One number per turn."""

    wall: list[float]  # seconds
    cpu: list[float]  # seconds of the processor
    peak: list[float]  # bytes

    def over(self, other: Turns, factor: float = 1.0) -> tuple[float, float]:
        """The median ratios to another way's turns: of the clock, and of the processor."""
        return tuple(
            statistics.median(factor * mine / its for mine, its in zip(one, two, strict=True))
            for one, two in ((self.wall, other.wall), (self.cpu, other.cpu))
        )  # type: ignore[return-value]


def work(name: str, tokens: int, threads: int) -> None:
    """A process: runs once for each line it reads, and answers with seconds, CPU seconds and its peak in bytes."""
    import torch

    from regard import _core

    torch.set_num_threads(threads)
    _core.set_threads(threads)
    run = way(name, tokens) if name in WAYS else effects(name)
    run(True)
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter(), time.process_time()
        run(False)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(time.perf_counter() - begin[0], time.process_time() - begin[1], peak, flush=True)


def by_turns(names: tuple[str, ...], options: argparse.Namespace) -> dict[str, Turns]:
    command = [sys.executable, __file__, "--tokens", str(options.tokens), "--threads", str(options.threads), "--worker"]
    processes = {
        name: subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in names
    }
    turns = {name: Turns([], [], []) for name in names}
    for process in processes.values():
        assert process.stdout is not None
        process.stdout.readline()
    for number in range(options.rounds):
        for name, process in processes.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline().split()
            for several, one in zip(turns[name], line, strict=True):
                several.append(float(one))
            print(number, name, *line, file=sys.stderr, flush=True)
    for process in processes.values():
        process.communicate()
    return turns


def page(tokens: int, threads: int, cost: dict[str, Turns], gain: dict[str, Turns]) -> str:
    processor = machine.describe()["processor"]
    lines = [
        "# Interventions", "",
        f"Written by `python benchmarks/edits.py`. {processor}, {machine.cores()} cores; threads per "
        f"process: {threads}. Ratios are medians over turns. CPU is the processor's time, which other programs "
        "change less than the clock's; where it is much smaller than the time, the machine was busy.", "",
        f"A Llama-shaped model ({LAYERS} layers, {HEADS} heads of size {HEAD_DIM} on {KEY_HEADS} key heads, "
        f"random weights) reads {tokens:,} tokens, {len(cost[WAYS[0]].wall)} turns:", "",
        "| way | time | CPU | time ÷ sdpa | CPU ÷ sdpa | aim | peak | ÷ sdpa | aim |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    plain = cost[WAYS[0]]
    for name, turns in cost.items():
        of_wall, of_cpu = turns.over(plain)
        aims = (f"≤ {MOST_TIME[name]:.2f}", f"≤ {MOST_MEMORY:.2f}") if name in MOST_TIME else ("", "")
        lines.append(
            f"| {name} | {statistics.median(turns.wall):.1f} s | {statistics.median(turns.cpu):.1f} s | "
            f"{of_wall:.3f} | {of_cpu:.3f} | {aims[0]} | {turns.peak[-1] / 2**30:.2f} GiB | "
            f"{turns.peak[-1] / plain.peak[-1]:.3f} | {aims[1]} |"
        )
    lines += [
        "",
        "Silencing each of MiniLM's 72 heads on 100 sentences of 8 to 40 words, "
        f"{len(gain[EFFECTS[0]].wall)} turns:", "",
        "| way | time | CPU | time ÷ `effect` | CPU ÷ `effect` | aim |", "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for name, turns in gain.items():
        factor = 1 if name == EFFECTS[0] else 12
        of_wall, of_cpu = turns.over(gain[EFFECTS[0]], factor)
        aim = f"≥ {LEAST_GAIN[name]:.1f}" if name in LEAST_GAIN else ""
        lines.append(
            f"| {name} | {factor * statistics.median(turns.wall):.1f} s | "
            f"{factor * statistics.median(turns.cpu):.1f} s | {of_wall:.2f} | {of_cpu:.2f} | {aim} |"
        )
    lines += ["", "Hooks are measured for one head per layer, times 12."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--worker")
    parser.add_argument("--only", choices=("cost", "effect"))
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.tokens, options.threads)
        return
    kept = json.loads(TURNS.read_text(encoding="utf-8")) if TURNS.exists() else {}
    for part, names in (("cost", WAYS), ("effect", EFFECTS)):
        if options.only in (None, part):
            kept[part] = {name: turns._asdict() for name, turns in by_turns(names, options).items()}
            kept["threads"], kept["tokens"] = options.threads, options.tokens
            TURNS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if {"cost", "effect"} <= set(kept):
        cost, gain = ({name: Turns(**turns) for name, turns in kept[part].items()} for part in ("cost", "effect"))
        text = page(kept["tokens"], kept["threads"], cost, gain)
        PAGE.write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
