"""What heads do, against transformers and NumPy; memory of an atlas; writes HEADS.md.

    python benchmarks/heads.py --treebank FILE.conllu                # speed
    python benchmarks/heads.py --treebank FILE.conllu --every 10 --ways all  # slow ways too, on every tenth sentence
    python benchmarks/heads.py --memory                              # peak memory of an atlas of 10 and 200 MB; an hour
    python benchmarks/heads.py --treebank FILE.conllu --every 10 --quick     # prints only

Every way of computing has a process of its own; they take turns. All start from parsed sentences and end with the six
sums of each statistic of each head and with each head's choice for each word, which are compared before they are timed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import machine

HERE = Path(__file__).parent
MODEL = "minilm"
WAYS = {
    "Regard": "one pass, packed without padding",
    "one by one": "transformers, one sentence at a time",
    "padded": "transformers, batches of 32 sentences of similar length, padded",
    "equal": "transformers, batches of sentences of equal length",
}
BATCH, TOKENS = 32, 4096
WANTED = 5.0
SPEED, MEMORY = "## All statistics and relations", "## Memory of an atlas"
SLOW = "## Other ways with transformers"
ATLASES = (("small", 10), ("small", 200), (MODEL, 1), (MODEL, 4))  # model, megabytes of text


def main() -> None:
    options = _options()
    if options.peak:
        print(json.dumps(_atlas(options.peak[0], int(options.peak[1]))))
        return
    speed = SPEED if options.every == 1 else SLOW
    for heading, measure in ((speed, options.treebank and _speed), (MEMORY, options.memory and _memory)):
        if measure:
            text = "\n".join([heading, "", *measure(options)]) + "\n"
            print(text)
            if not options.quick:
                _write(options.output or HERE / "HEADS.md", heading, text)


def _write(path: Path, heading: str, text: str) -> None:
    """Replace one section of the page and keep the others."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = {part.splitlines()[0]: part for part in before.split("\n## ")[1:]}
    parts[heading.removeprefix("## ")] = text.removeprefix("## ")
    found = machine.describe()
    about = f"{found['processor']}, {found['cores']} cores. Written by `python benchmarks/heads.py`."
    order = [name.removeprefix("## ") for name in (SPEED, SLOW, MEMORY)]
    body = "\n".join(f"## {parts[name].rstrip()}\n" for name in order if name in parts)
    path.write_text(f"# What heads do\n\n{about}\n\n{body}", encoding="utf-8")


# Speed


def _speed(options: argparse.Namespace) -> list[str]:
    context = multiprocessing.get_context("spawn")
    pipes, workers = {}, []
    ways = [way for way in WAYS if way in ("Regard", *options.ways) or "all" in options.ways]
    for way in ways:
        pipe, theirs = context.Pipe()
        worker = context.Process(target=_worker, args=(way, str(options.treebank), options.every, theirs), daemon=True)
        worker.start()
        pipes[way] = pipe
        workers.append(worker)
    results = {way: pipe.recv() for way, pipe in pipes.items()}
    ours = results["Regard"]
    agreement = {way: _difference(ours, found) for way, found in results.items()}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(options.repeats):
        for way in ways if turn % 2 == 0 else ways[::-1]:
            machine.wait_until_asleep([worker.pid for worker in workers if worker.pid])
            pipes[way].send("run")
            times[way].append(pipes[way].recv())
            print(f"{way}: {times[way][-1]:.2f} s", file=sys.stderr, flush=True)
    pipes["Regard"].send("products")
    products = pipes["Regard"].recv() / len(times["Regard"])
    for worker in workers:
        worker.terminate()
    counted = ours["about"]
    lines = [
        f"{MODEL}, {options.treebank.name}: {counted['sentences']:,} sentences, {counted['tokens']:,} tokens. "
        "From sentences to 22 statistics of every head and the word that every word attends to most in every head.",
        "Medians over turns; transformers returns its weights (`output_attentions=True`), and NumPy does the rest.",
        "",
        "| way | time | times Regard's | same choices | largest difference of a mean |",
        "|---|---:|---:|---:|---:|",
    ]
    for way, about in ((way, WAYS[way]) for way in ways):
        seconds = statistics.median(times[way])
        ratio = seconds / statistics.median(times["Regard"])
        same, apart = agreement[way]
        lines.append(f"| {about} | {seconds:.2f} s | {ratio:.1f}× | {same:.5f} | {apart:.1e} |")
    total = sum(times["Regard"]) / len(times["Regard"])
    own = statistics.median(times["Regard"])
    slower = {way: statistics.median(times[way]) / own for way in ways if way != "Regard"}
    reached = [f"{WAYS[way]} ({ratio:.1f}×)" for way, ratio in slower.items() if ratio >= WANTED]
    missed = [f"{WAYS[way]} ({ratio:.1f}×)" for way, ratio in slower.items() if ratio < WANTED]
    fastest = min(statistics.median(times[way]) for way in slower)
    return [
        *lines,
        "",
        f"Wanted: {WANTED:.0f}×. Reached against: {'; '.join(reached) or 'none'}. Missed against: "
        f"{'; '.join(missed) or 'none'}.",
        f"{products / total:.0%} of Regard's time are the linear layers of the model ({products:.2f} s), which every "
        f"way computes: with statistics for nothing, the fastest other way would take {fastest / products:.1f} times "
        "as long.",
    ]


def _difference(ours: dict[str, Any], found: dict[str, Any]) -> tuple[float, float]:
    """Share of equal choices, and the largest difference of a mean."""
    same = float((ours["choices"] == found["choices"]).mean())
    means = [
        np.abs(ours["sums"][name][3] / ours["sums"][name][1] - found["sums"][name][3] / found["sums"][name][1])
        / np.maximum(1, np.abs(ours["sums"][name][3] / ours["sums"][name][1]))
        for name in found["sums"]
    ]
    return same, float(np.nanmax(means))


def _worker(way: str, treebank: str, every: int, pipe: Any) -> None:
    prepared = _regard(treebank, every) if way == "Regard" else _transformers(way, treebank, every)
    pipe.send(prepared())
    products = _timed_products() if way == "Regard" else [0.0]
    while (asked := pipe.recv()) in ("run", "products"):
        start = time.perf_counter()
        if asked == "run":
            prepared()
        pipe.send(time.perf_counter() - start if asked == "run" else sum(products))


def _timed_products() -> list[float]:
    """The seconds of each linear layer from now on."""
    from regard.engines import native

    times: list[float] = []
    linear = native.linear

    def timed(*given: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = linear(*given, **options)
        times.append(time.perf_counter() - start)
        return found

    native.linear = timed  # type: ignore[assignment]
    return times


def _opened(treebank: str, every: int) -> tuple[Any, Any]:
    from regard.heads.treebank import Treebank, read
    from regard.models.model import model

    reader = model(MODEL)
    whole = read(treebank)
    part = Treebank(whole.name, whole.sentences[::every], ())
    return reader, part


def _regard(treebank: str, every: int) -> Callable[[], dict[str, Any]]:
    from regard.heads.statistics import NAMES, Measurement
    from regard.heads.treebank_relations import align, predictions

    reader, part = _opened(treebank, every)
    documents = [one.document for one in align(reader, part.sentences) if one is not None]
    about = {"sentences": len(documents), "tokens": sum(map(len, documents))}

    def run() -> dict[str, Any]:
        measurement = Measurement(reader)
        found = predictions(reader, part, measurement=measurement)
        sums = {
            name: measurement.numbers[place].reshape(6, -1)
            for place, name in enumerate(NAMES)
            if name not in ("induction", "duplicate")
        }
        return {"sums": sums, "choices": found.partner, "about": about}

    return run


def _transformers(way: str, treebank: str, every: int) -> Callable[[], dict[str, Any]]:
    import torch
    from transformers import BertModel

    from peers import heads_numpy
    from regard.heads import treebank_relations as relations
    from regard.heads.statistics import output_grams
    from regard.models.store import resolve

    reader, part = _opened(treebank, every)
    path = resolve.find(MODEL)
    folder = path if path.is_dir() else path.parent
    twin = BertModel.from_pretrained(folder, attn_implementation="eager", add_pooling_layer=False).eval()
    layers, heads = len(reader.blocks), reader.heads
    grams = np.stack([output_grams(shape) for shape in reader.block_shapes])  # W_Oᵀ W_O of every head
    captured: dict[str, list[Any]] = {"values": [], "outputs": []}
    for layer in twin.encoder.layer:
        attention = layer.attention
        attention.self.value.register_forward_hook(lambda _m, _i, out: captured["values"].append(out))
        attention.output.dense.register_forward_pre_hook(lambda _m, given: captured["outputs"].append(given[0]))

    def forward(ids: Any, mask: Any) -> tuple[Any, Any, Any]:
        """Weights (text, layer · head, query, key); ‖v · W_O‖ and shares of ‖output · W_O‖ (text, head, token)."""
        for kept in captured.values():
            kept.clear()
        with torch.inference_mode():
            weights = twin(input_ids=ids, attention_mask=mask, output_attentions=True).attentions
        stacked = np.concatenate([one.numpy() for one in weights], axis=1)
        lengths = []
        for name in ("values", "outputs"):
            vectors = np.stack([one.numpy() for one in captured[name]])  # (layer, text, token, width)
            vectors = vectors.reshape(*vectors.shape[:3], heads, -1).transpose(1, 0, 3, 2, 4)
            squares = ((vectors @ grams) * vectors).sum(axis=-1)  # (text, layer, head, token)
            lengths.append(np.sqrt(np.maximum(squares, 0)))
        shares = lengths[1] / lengths[1].sum(axis=2, keepdims=True)
        flat = (len(stacked), layers * heads, -1)
        return stacked, lengths[0].reshape(flat), shares.reshape(flat)

    count = [len(sentence.words) for sentence in part.sentences]
    first = np.concatenate([[0], np.cumsum(count)])

    def run() -> dict[str, Any]:
        sums: dict[str, Any] = {}
        aligned: list[Any] = list(relations.align(reader, part.sentences))
        chosen = np.full((first[-1], layers * heads), -1, np.int16)
        for places in _batches(way, aligned):
            documents = [aligned[place].document for place in places]
            longest = max(map(len, documents))
            ids = torch.zeros((len(places), longest), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, document in enumerate(documents):
                ids[row, : len(document)] = torch.from_numpy(document.ids)
                mask[row, : len(document)] = 1
            weights, norms, shares = forward(ids, None if way != "padded" else mask)
            for row, place in enumerate(places):
                n = len(documents[row])
                words = slice(first[place], first[place + 1])
                chosen[words] = heads_numpy.choices(weights[row, :, :n, :n], aligned[place])
            if way == "padded":
                for row, document in enumerate(documents):
                    n, one = len(document), slice(row, row + 1)
                    of_text = weights[one, :, :n, :n], norms[one, :, :n], shares[one, :, :n]
                    heads_numpy.added(sums, heads_numpy.of_texts(*of_text, [document]), layers * heads)
            else:
                heads_numpy.added(sums, heads_numpy.of_texts(weights, norms, shares, documents), layers * heads)
        return {"sums": sums, "choices": chosen}

    return run


def _batches(way: str, aligned: Sequence[Any]) -> list[list[int]]:
    """Places of sentences that are computed together."""
    lengths = [len(one.document) for one in aligned]
    if way == "one by one":
        return [[place] for place in range(len(lengths))]
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    if way == "padded":
        return [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    found: list[list[int]] = []
    for place in order:
        same = bool(found) and lengths[found[-1][0]] == lengths[place]
        if same and (len(found[-1]) + 1) * lengths[place] <= TOKENS:
            found[-1].append(place)
        else:
            found.append([place])
    return found


# Memory


def _memory(_options: argparse.Namespace) -> list[str]:
    lines = [
        "`regard heads corpus`, one process: text files of random words, in paragraphs of 5 to 600. Peak is the",
        f"resident memory of the process. *small* is an untrained model of 2 layers with the tokeniser of {MODEL}.",
        "",
        "| model | text | documents | tokens | units | peak |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, megabytes in ATLASES:
        command = [sys.executable, str(HERE / "heads.py"), "--peak", name, str(megabytes)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=None)
        found = json.loads(done.stdout.splitlines()[-1])
        lines.append(
            f"| {name} | {megabytes} MB | {found['documents']:,} | {found['tokens']:,} | {found['units']:,} "
            f"| {found['peak'] / 2**20:,.0f} MiB |"
        )
        print(lines[-1], f"{found['seconds'] / 60:.1f} min", file=sys.stderr, flush=True)
    return lines


def _atlas(name: str, megabytes: int) -> dict[str, Any]:
    import resource
    import tempfile
    from dataclasses import replace

    from regard.heads import atlas_folder as atlas
    from regard.layers import Transformer
    from regard.models.model import model

    reader = model(MODEL)
    if name == "small":
        small = Transformer.seeded(len(reader.transformer.embedding.weight), 32, 2, encoders=2)
        reader = replace(reader, name=name, transformer=small)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        words = [word for word in reader.tokeniser.engine.get_vocab() if word.isascii() and word.isalpha()]
        _write_words(path, sorted(words), megabytes * 10**6)
        out = Path(folder) / "atlas"
        start = time.monotonic()
        manifest = atlas.start_atlas(out, reader, [str(path)])
        atlas.run(out, manifest, atlas.units_of(manifest), atlas.in_this_process(reader, manifest))
        found, missing = atlas.sum_parts(out)
        assert missing == 0
        seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**found.about, "units": len(manifest.corpus.units), "peak": peak, "seconds": seconds}


def _write_words(path: Path, words: Sequence[str], size: int) -> None:
    """Random words, some of them often, as in a language."""
    generator = np.random.default_rng(0)
    order = generator.permutation(len(words))
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            count = int(np.exp(generator.uniform(np.log(5), np.log(600))))
            chosen = order[np.minimum(generator.zipf(1.3, count), len(words)) - 1]
            file.write(" ".join(words[place] for place in chosen) + ".\n\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--treebank", type=Path, help="a CoNLL-U file, for the speed")
    parser.add_argument("--memory", action="store_true", help="peak memory of atlases")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, "all"], default=["padded"], help="beside Regard")
    parser.add_argument("--every", type=int, default=1, help="only every n-th sentence")
    parser.add_argument("--quick", action="store_true", help="print only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
