"""Watching a model: python benchmarks/watch.py [--only SECTION,…] [--rounds N] [--quick]; writes WATCH.md.

A Llama-shaped model (8 layers, 16 heads of size 64, random weights) reads n tokens: plain, watched, with eager
attention that returns its weights, and with weights recovered from fused attention by identity values, as AttnRead
does: one more pass of a layer for every head_dim keys. Each way has a process of its own; they take turns, and all but
one sleep. Peaks come from fresh processes that run once.

Sections (all by default; the numbers of the others are taken from watch.json): short, long, received, memory, peers,
masks, generation. The page is written anew from all of them.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).parent
PAGE, NUMBERS = HERE / "WATCH.md", HERE / "watch.json"
LAYERS, HEADS, HEAD_DIM = 8, 16, 64
SHORT, LONG, DENSE, PADDED = 128, 8192, 4096, 16384  # tokens
SUMMARY, ALL, RECEIVED = "entropy and top 8", "all", "received"
WATCHES: dict[str, Any] = {
    SUMMARY: ["entropy", "top"], "summary": "summary", ALL: "all", RECEIVED: ["column_sums"], "received alone": "all",
}  # fmt: skip
WAYS = ("sdpa", SUMMARY, "summary", ALL, RECEIVED)
EAGER, IDENTITY, READ = "eager, weights returned", "identity values, all weights", "all, then every weight read"
PEERS = ("sdpa", ALL, READ, EAGER, IDENTITY)
TARGETS = {(SUMMARY, SHORT): 1.2, (ALL, SHORT): 1.2, (SUMMARY, LONG): 1.05, (ALL, LONG): 1.05}  # times sdpa
MOST_MEMORY = 1.10  # times the peak of sdpa, at LONG with keep="summary"
MOST_RECEIVED = 0.65  # of a forward pass of attention
BLOCK = 64  # rows of weights read at once
PROMPT, WRITTEN = "Once upon a time", 100
TIMEOUT = 1800


def main() -> None:
    options = _options()
    if options.worker:
        _work(options.worker[0], int(options.worker[1]))
        return
    found = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() and not options.quick else {}
    for name in options.only.split(",") if options.only else SECTIONS:
        print(f"{name} …", file=sys.stderr, flush=True)
        found[name] = SECTIONS[name](options)
    page = _page(found)
    print(page)
    if not options.quick:
        NUMBERS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SECTION,…", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, help="turns of each process (default 15 short, 3 long)")
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the tokens; prints only")
    parser.add_argument("--worker", nargs=2, metavar=("WAY", "TOKENS"), help=argparse.SUPPRESS)
    return parser.parse_args()


# Sections


def _times(ways: tuple[str, ...], tokens: int, rounds: int) -> dict[str, Any]:
    """Seconds of every way in every round, by turns."""
    workers = {way: Worker(way, tokens) for way in ways}
    try:
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(rounds):
            first = turn % len(ways)
            for way in ways[first:] + ways[:first]:
                machine.wait_until_asleep([worker.process.pid for worker in workers.values()])
                seconds[way].append(workers[way].ask("run")["seconds"])
        return {"tokens": tokens, "seconds": seconds}
    finally:
        for worker in workers.values():
            worker.end()


def _short(options: argparse.Namespace) -> dict[str, Any]:
    return _times(WAYS, 64 if options.quick else SHORT, options.rounds or (3 if options.quick else 15))


def _long(options: argparse.Namespace) -> dict[str, Any]:
    return _times(WAYS, LONG // 16 if options.quick else LONG, options.rounds or 3)


def _received(options: argparse.Namespace) -> dict[str, Any]:
    """Column sums beside the pass that computes the outputs, of one layer."""
    worker = Worker("received alone", LONG // 16 if options.quick else LONG)
    try:
        return worker.ask("run")
    finally:
        worker.end()


def _memory(options: argparse.Namespace) -> dict[str, Any]:
    tokens = LONG // 16 if options.quick else LONG
    return {"tokens": tokens, "peaks": {way: _once(way, tokens) for way in WAYS}}


def _peers(options: argparse.Namespace) -> dict[str, Any]:
    tokens = DENSE // 16 if options.quick else DENSE
    return {"tokens": tokens, "once": {way: _once(way, tokens) for way in PEERS}}


def _masks(options: argparse.Namespace) -> dict[str, Any]:
    """Two sequences, one of them padded: fused attention gets an n² mask, watching keeps two integers per query."""
    tokens = PADDED // 16 if options.quick else PADDED
    ways = ("nothing", "padded: sdpa", *(f"padded: {way}" for way in (SUMMARY, ALL)))
    return {"tokens": tokens, "peaks": {way: _once(way, tokens) for way in ways}}


def _generation(options: argparse.Namespace) -> dict[str, Any]:
    return _once("generation", 12 if options.quick else WRITTEN)


SECTIONS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "short": _short, "long": _long, "received": _received, "memory": _memory, "peers": _peers, "masks": _masks,
    "generation": _generation,
}  # fmt: skip


# Processes


class Worker:
    """A process that holds one way to run the model."""

    def __init__(self, way: str, tokens: int) -> None:
        command = [sys.executable, str(HERE / "watch.py"), "--worker", way, str(tokens)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def ask(self, what: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"A process of this benchmark ended with code {self.process.wait()}.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self.process.communicate(timeout=TIMEOUT)


def _once(way: str, tokens: int) -> dict[str, Any]:
    """One run in a fresh process: its seconds and its peak of memory."""
    worker = Worker(way, tokens)
    try:
        found = worker.ask("once")
        print(f"  {way}: {found}", file=sys.stderr, flush=True)
        return found
    finally:
        worker.end()


def _work(way: str, tokens: int) -> None:
    """The loop of a worker: one line in, one line of JSON out."""
    run = _run_of(way, tokens)
    if tokens <= SHORT:
        run()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        inner = 5 if tokens <= SHORT and line.strip() == "run" and way in WAYS else 1
        start = time.perf_counter()
        for _ in range(inner):
            found = run()
        seconds = (time.perf_counter() - start) / inner
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "peak": peak, **found}), flush=True)


# What a worker runs


def _model(layers: int = LAYERS) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000, hidden_size=HEADS * HEAD_DIM, intermediate_size=2816, num_hidden_layers=layers,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=16384,
    )  # fmt: skip
    return LlamaModel(config).eval()


def _run_of(way: str, tokens: int) -> Callable[[], dict[str, Any]]:
    """What one turn runs; it returns what is worth keeping beside the time."""
    import torch

    import regard

    if way == "generation":
        return lambda: _generate(tokens)
    if way == "received alone":
        return lambda: _column_sums(tokens)
    padded = way.startswith("padded: ")
    way = way.removeprefix("padded: ")
    model = _model(1 if padded or way == "nothing" else LAYERS)
    torch.set_grad_enabled(False)
    ids = torch.randint(0, 1000, (2 if padded else 1, tokens), generator=torch.Generator().manual_seed(1))
    inputs: dict[str, Any] = {"input_ids": ids, "use_cache": False}
    if padded:
        inputs["attention_mask"] = torch.ones_like(ids)
        inputs["attention_mask"][0, : tokens // 3] = 0
    with torch.inference_mode():
        model(ids[:, :32])

    def plain() -> dict[str, Any]:
        with torch.inference_mode():
            model(**inputs)
        return {"kept": 0}

    def watched() -> dict[str, Any]:
        with regard.watch(model, keep=WATCHES[way]) as seen, torch.inference_mode():
            model(**inputs)
        return {"kept": seen.memory}

    def read() -> dict[str, Any]:
        with regard.watch(model) as seen, torch.inference_mode():
            model(**inputs)
            for layer in seen.layers:
                attention = layer.attention
                for row in range(0, tokens, BLOCK):
                    attention[..., row : row + BLOCK, :]
        return {"kept": seen.memory}

    def eager() -> dict[str, Any]:
        model.set_attn_implementation("eager")
        with torch.inference_mode():
            weights = model(**inputs, output_attentions=True).attentions
        return {"kept": sum(one.nbytes for one in weights)}

    ways = {"sdpa": plain, "nothing": lambda: {"kept": 0}, READ: read, EAGER: eager}
    return _recovery(model, inputs) if way == IDENTITY else ways.get(way, watched)


def _recovery(model: Any, inputs: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Weights read off fused attention, by values that are columns of the identity matrix."""
    import torch
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    kept: list[Any] = []

    def recovered(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        count, size = key.shape[2], value.shape[3]
        weights = query.new_empty((*query.shape[:3], count))
        for start in range(0, count, size):
            width = min(size, count - start)
            identity = value.new_zeros(value.shape)
            identity[:, :, torch.arange(start, start + width), torch.arange(width)] = 1
            columns = sdpa_attention_forward(module, query, key, identity, mask, **options)[0]
            weights[..., start : start + width] = columns.transpose(1, 2)[..., :width]
        kept.append(weights)
        return sdpa_attention_forward(module, query, key, value, mask, **options)

    AttentionInterface.register("recovered", recovered)
    AttentionMaskInterface.register("recovered", sdpa_mask)
    model.set_attn_implementation("recovered")

    def run() -> dict[str, Any]:
        kept.clear()
        with torch.inference_mode():
            model(**inputs)
        return {"kept": sum(one.nbytes for one in kept)}

    return run


def _column_sums(tokens: int, rounds: int = 5) -> dict[str, Any]:
    """Seconds of the outputs alone, and of the outputs with column sums, by turns; also at a quarter of the length."""
    import torch

    from regard.watch.call import Call
    from regard.watch.lazy_mask import MaskCall, causal_mask_function

    found = {}
    for count in (tokens // 4, tokens):
        heads = [torch.randn(1, count, HEADS, HEAD_DIM).transpose(1, 2) for _ in range(3)]
        call = Call(*heads, MaskCall(count, count, 0, 0, causal_mask_function))  # type: ignore[arg-type]
        seconds: dict[str, list[float]] = {"outputs": [], "with column sums": []}
        for turn in range(rounds + 1):
            for name, received in (("outputs", False), ("with column sums", True)):
                start = time.perf_counter()
                call.computed(call.values, column_sums=received)
                if turn:
                    seconds[name].append(time.perf_counter() - start)
        found[str(count)] = seconds
    return {"by length": found}


def _generate(count: int) -> dict[str, Any]:
    """SmolLM2-135M writes, unwatched and watched, by turns."""
    import torch
    from transformers import PreTrainedTokenizerFast

    import regard
    from peers.model_transformers import llama

    torch.set_grad_enabled(False)
    ours = regard.model("smollm2")
    model, tokenizer = llama(ours), PreTrainedTokenizerFast(tokenizer_object=ours.tokeniser.engine)
    ids = torch.tensor([ours.tokeniser.encode(PROMPT).ids])
    options = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False, "pad_token_id": 0}
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    model.generate(**inputs, **{**options, "max_new_tokens": 3, "min_new_tokens": 3})
    seconds: dict[str, list[float]] = {"plain": [], "all": [], "summary": []}
    texts: dict[str, Any] = {}
    reading: Any = None
    for _ in range(3):
        for name in seconds:
            start = time.perf_counter()
            if name == "plain":
                texts[name] = model.generate(**inputs, **options)
            else:
                with regard.watch(model, keep=name) as seen:
                    texts[name] = model.generate(**inputs, **options)
            seconds[name].append(time.perf_counter() - start)
            if name == "all":
                reading = seen.reading(tokenizer, texts[name])
    names = ("row_sums", "forbidden", "output")
    return {
        "tokens": count,
        "times": seconds,
        "same": {name: bool(torch.equal(texts["plain"], texts[name])) for name in ("all", "summary")},
        "certificate": {name: float(getattr(reading.certificate, name)) for name in names},
    }


# The page


def _page(found: dict[str, Any]) -> str:
    facts = machine.describe()
    versions = f"PyTorch {_version('torch')}, transformers {_version('transformers')}"
    lines = [
        "# Watching a model",
        "",
        f"{facts['processor']}, {facts['cores']} cores; {versions}. Written by `python benchmarks/watch.py`.",
        "",
        *_wrapped(
            f"A Llama-shaped model: {LAYERS} layers, {HEADS} heads of {HEAD_DIM}, random weights, float32; one "
            "sequence, no KV cache. Each way runs in a process of its own, by turns; ratios are medians over rounds, "
            "relative to plain sdpa in the same round. `regard.watch` includes entering and leaving the block. Peaks "
            "are the resident memory of fresh processes that ran once."
        ),
    ]
    for name in ("short", "long"):
        if name in found:
            lines += _time_table(found[name])
    others = {
        "received": _received_table, "memory": _memory_table, "peers": _peer_table, "masks": _mask_table,
        "generation": _generation_text,
    }  # fmt: skip
    for name, write in others.items():
        if name in found:
            lines += write(found[name])
    return "\n".join(lines).rstrip() + "\n"


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name).partition("+")[0]


def _table(columns: str, rows: list[list[str]]) -> list[str]:
    """A Markdown table, text on the left and numbers on the right."""
    names = columns.split(" | ")
    rules = ["---" if name in ("what", "wanted") else "---:" for name in names]
    return ["", *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (names, rules, *rows)), ""]


def _verdict(value: float, most: float | None, spread: tuple[float, float] | None = None) -> str:
    """Whether a number is small enough; undecided where the limit lies between the quartiles of the rounds."""
    if most is None:
        return ""
    if spread is not None and spread[0] <= most < spread[1]:
        return f"at most {most:g}: not decided by these rounds"
    return f"at most {most:g}: {'reached' if value <= most else '**missed**'}"


def _shown(way: str) -> str:
    names = {"sdpa": "plain sdpa", ALL: '`keep="all"`', READ: f'`keep="all"`, every weight read, {BLOCK} rows at once'}
    names |= {SUMMARY: '`keep=["entropy", "top"]`', "summary": '`keep="summary"`', RECEIVED: '`keep=["column_sums"]`'}
    return names.get(way, way)


def _time_table(found: dict[str, Any]) -> list[str]:
    tokens, seconds = found["tokens"], found["seconds"]
    rows = []
    for way, times in seconds.items():
        ratios = sorted(one / own for one, own in zip(times, seconds["sdpa"], strict=True))
        ratio = statistics.median(ratios)
        spread = "" if way == "sdpa" else f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        first, _, last = statistics.quantiles(ratios, n=4, method="inclusive")
        wanted = _verdict(ratio, TARGETS.get((way, tokens)), (first, last))
        rows.append([_shown(way), _seconds(statistics.median(times)), f"{ratio:.3f}", spread, wanted])
    title = [f"## Time, {tokens:,} tokens", "", f"{len(seconds['sdpa'])} rounds."]
    return [*title, *_table("what | time | times sdpa | smallest to largest | wanted", rows)]


def _received_table(found: dict[str, Any]) -> list[str]:
    rows = []
    for tokens, seconds in found["by length"].items():
        alone, both = (statistics.median(seconds[name]) for name in ("outputs", "with column sums"))
        cost = both / alone - 1
        rows.append([f"{int(tokens):,}", _seconds(alone), _seconds(both), f"{cost:.2f}", _verdict(cost, MOST_RECEIVED)])
    title = ["## Column sums", "", "One layer: outputs alone, and outputs with `column_sums`, the sum of every column."]
    return [*title, *_table("tokens | outputs | with column sums | cost, in forward passes | wanted", rows)]


def _memory_table(found: dict[str, Any]) -> list[str]:
    rows = []
    for way, one in found["peaks"].items():
        ratio = one["peak"] / found["peaks"]["sdpa"]["peak"]
        wanted = _verdict(ratio, MOST_MEMORY if way == "summary" else None)
        rows.append([_shown(way), _size(one["peak"]), f"{ratio:.3f}", _size(one["kept"]), wanted])
    columns = "what | peak | times sdpa | kept (`seen.memory`) | wanted"
    return [f"## Memory, {found['tokens']:,} tokens", *_table(columns, rows)]


def _peer_table(found: dict[str, Any]) -> list[str]:
    tokens, once = found["tokens"], found["once"]
    rows = []
    for way, one in once.items():
        times, peaks = (f"{one[name] / once['sdpa'][name]:.2f}" for name in ("seconds", "peak"))
        rows.append([_shown(way), _seconds(one["seconds"]), times, _size(one["peak"]), peaks, _size(one["kept"])])
    dense = LAYERS * HEADS * (2 * tokens) ** 2 * 4
    title = [
        f"## Beside the ways in use, {tokens:,} tokens",
        "",
        f"All weights of all layers; at twice the length they would take {_size(dense)}. One run each.",
    ]
    return [*title, *_table("what | time | times sdpa | peak | times sdpa | kept", rows)]


def _mask_table(found: dict[str, Any]) -> list[str]:
    tokens, peaks = found["tokens"], found["peaks"]
    ground = peaks["nothing"]["peak"]
    rows = [
        [_shown(way.removeprefix("padded: ")), _size(one["peak"]), _size(one["peak"] - ground)]
        for way, one in peaks.items()
        if way != "nothing"
    ]
    title = [
        f"## Padded batch, 2 × {tokens:,} tokens, one layer",
        "",
        f"Plain sdpa gets a mask of booleans, {_size(2 * tokens**2)}; watching keeps two integers per query.",
    ]
    return [*title, *_table("what | peak | beyond libraries and weights", rows)]


def _generation_text(found: dict[str, Any]) -> list[str]:
    times = {name: statistics.median(seconds) for name, seconds in found["times"].items()}
    same, certificate = all(found["same"].values()), found["certificate"]
    which = "the same" if same else "**other**"
    rates = ", ".join(f"{name} {found['tokens'] / seconds:.1f}" for name, seconds in times.items())
    return [
        "## Generation",
        "",
        *_wrapped(
            f"SmolLM2-135M-Instruct writes {found['tokens']} tokens after “{PROMPT}”: {which} tokens with and without "
            f"watching. Tokens per second: {rates}. Certificate of the whole sequence: row sums within "
            f"{certificate['row_sums']:.0e} of 1, weight on masked keys {certificate['forbidden']:g}, outputs within "
            f"{certificate['output']:.0e} of float64."
        ),
    ]


def _wrapped(text: str) -> list[str]:
    return [*textwrap.wrap(text, 118, break_long_words=False), ""]


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _size(count: float) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


if __name__ == "__main__":
    main()
