"""The parts of the table: which cases, which peers, and how each line reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cases
from cases import Case
from driver import Measured
from peers import PEERS

Column = tuple[str, Callable[[Measured], str]]  # its heading, and what stands in a line
OTHERS = ("ort_multihead", "ort_attention", "ort_group_query", "torch_flex", "openvino", "torch_eager", "numpy")


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    note: str
    cases: Callable[[bool], list[Case]]  # given whether the run is quick
    peers: Callable[[Case], tuple[str, ...]]
    columns: tuple[Column, ...]


def _peers(*names: str) -> Callable[[Case], tuple[str, ...]]:
    return lambda case: names


def _forward_peers(case: Case) -> tuple[str, ...]:
    others = (name for name in OTHERS if case.causal or name != "ort_group_query")  # which is always causal
    return ("regard", "torch_fused", *others, "limit")


def _decode_peers(case: Case) -> tuple[str, ...]:
    in_float32 = ("ort_group_query",) if case.storage == "float32" else ()
    return ("regard", "regard_torch", "torch_fused", *in_float32, "ggml", "reading")


def _missing(measured: Measured, participant: str) -> str:
    peer = participant.partition(":")[0]
    reason = measured.reasons.get(participant) or measured.reasons.get(peer)
    if reason is None:
        return "–"
    return reason if reason.startswith("needs") else "see note"


def _time(heading: str, participant: str, unit: str = "ms") -> Column:
    factor = {"ms": 1e3, "µs": 1e6}[unit]

    def text(measured: Measured) -> str:
        seconds = measured.seconds(participant)
        return _missing(measured, participant) if seconds is None else _digits(seconds * factor)

    return f"{heading}, {unit}", text


def _digits(number: float) -> str:
    return f"{number:.3f}" if number < 10 else f"{number:.1f}" if number < 1000 else f"{number:.0f}"


def _rate(participant: str, factor: float = 1.0) -> Column:
    def text(measured: Measured) -> str:
        seconds = measured.seconds(participant)
        return "–" if seconds is None else f"{factor * measured.case.forward_flops / seconds / 1e9:.0f}"

    return "GFLOP/s", text


def _ratio(heading: str, participant: str, to: str = "regard", less: float = 0.0) -> Column:
    def text(measured: Measured) -> str:
        ratio = measured.ratio(participant, to)
        return _missing(measured, participant) if ratio is None else f"{ratio - less:.2f}×"

    return heading, text


def _times(name: str, to: str = "regard") -> Column:
    return _ratio(PEERS[name].label, name, to)


def _share(heading: str = "of limit", limit: str = "limit", to: str = "regard") -> Column:
    def text(measured: Measured) -> str:
        share = measured.ratio(limit, to)
        return _missing(measured, limit) if share is None else f"{100 * share:.0f}%"

    return heading, text


def _of_equal_batch(measured: Measured) -> str:
    """Time of a batch of equal sequences for as many pairs, in that of the packed ones."""
    ratio = measured.ratio("regard: equal")
    return "–" if ratio is None else f"{ratio * measured.case.pairs / measured.case.equal_pairs:.2f}×"


CASE: Column = ("case", lambda measured: measured.case.name)
STORED: Column = ("case", lambda measured: f"{measured.case.name}, {measured.case.storage}")
SCORED: Column = ("case", lambda measured: f"{measured.case.name}, {measured.case.scores} scores")

SECTIONS = (
    Section(
        "forward",
        "Forward, float32",
        "How many times as long as Regard each peer takes. The limit is what a loop of fused multiply-adds reaches on "
        "all cores, the median over the run; only the two products count as work, where the mask allows.",
        lambda quick: cases.shapes("forward", quick),
        _forward_peers,
        (
            CASE,
            _time("Regard", "regard"),
            _rate("regard"),
            _share(),
            _times("torch_fused"),
            *(_times(name) for name in OTHERS),
        ),
    ),
    Section(
        "avx2",
        "Forward, float32, with AVX2",
        "As on processors without AVX-512 (`REGARD_ISA=avx2`), beside what a loop of fused multiply-adds reaches with "
        "AVX2. NEON runs under an emulator only: `make test-all` tests its results; its speed was not measured.",
        cases.avx2_cases,
        _peers("regard", "limit", "regard_avx2", "limit_avx2"),
        (
            CASE,
            _time("AVX2", "regard_avx2"),
            _rate("regard_avx2"),
            _share("of AVX2's limit", "limit_avx2", "regard_avx2"),
            _time("AVX-512", "regard"),
            _share("of AVX-512's limit"),
        ),
    ),
    Section(
        "backward",
        "Forward with backward, float32, PyTorch tensors",
        "To the gradients of queries, keys and values. Seven products count as work.",
        lambda quick: cases.shapes("backward", quick),
        _peers("regard_torch", "torch_fused"),
        (
            CASE,
            _time("Regard", "regard_torch"),
            _rate("regard_torch", 3.5),
            _times("torch_fused", "regard_torch"),
        ),
    ),
    Section(
        "packed",
        "Packed sequences of different lengths, float32",
        "One after the other in one array, `mask=documents(lengths=…)`. Beside it: a batch of equal sequences with "
        "the same work, computed by Regard (above 1×, packed ones are faster), one PyTorch call for each sequence, and "
        "one with a mask of n × n.",
        lambda quick: cases.packed_cases("forward", quick),
        _peers("regard", "torch_fused"),
        (
            CASE,
            _time("Regard", "regard"),
            _rate("regard"),
            ("equal batch", _of_equal_batch),
            _ratio("PyTorch, one by one", "torch_fused"),
            _ratio("PyTorch, masked", "torch_fused: masked"),
        ),
    ),
    Section(
        "packed_backward",
        "Packed sequences, forward with backward, PyTorch tensors",
        "",
        lambda quick: cases.packed_cases("backward", quick),
        _peers("regard_torch", "torch_fused"),
        (
            CASE,
            _time("Regard", "regard_torch"),
            _rate("regard_torch", 3.5),
            _ratio("PyTorch, one by one", "torch_fused", "regard_torch"),
            _ratio("PyTorch, masked", "torch_fused: masked", "regard_torch"),
        ),
    ),
    Section(
        "half",
        "Forward, 16-bit storage",
        "",
        cases.half_cases,
        _peers("regard", "regard_torch", "torch_fused"),
        (
            STORED,
            _time("Regard", "regard"),
            _time("Regard on tensors", "regard_torch"),
            _times("torch_fused"),
            _ratio("PyTorch / on tensors", "torch_fused", "regard_torch"),
        ),
    ),
    Section(
        "small",
        "Small calls",
        "How many times as long PyTorch's call takes.",
        cases.small_cases,
        _peers("regard", "regard_torch", "torch_fused"),
        (
            CASE,
            _time("Regard", "regard", "µs"),
            _time("Regard on tensors", "regard_torch", "µs"),
            _time("PyTorch", "torch_fused", "µs"),
            _ratio("PyTorch / Regard", "torch_fused", "regard"),
            _ratio("PyTorch / on tensors", "torch_fused", "regard_torch"),
        ),
    ),
    Section(
        "decode",
        "Decoding: one query against 8,192 and 32,768 keys",
        "`of memory` compares with reading the keys and values once, on all cores (`amax` of PyTorch). ONNX Runtime's "
        "operator appends to a cache that past and present share; it takes float32.",
        cases.decode_cases,
        _decode_peers,
        (
            STORED,
            _time("Regard", "regard"),
            _time("Regard on tensors", "regard_torch"),
            _share("of memory", "reading"),
            _times("torch_fused"),
            _ratio("PyTorch / on tensors", "torch_fused", "regard_torch"),
            _times("ort_group_query"),
            _times("ggml"),
        ),
    ),
    Section(
        "statistics",
        "Outputs with row statistics",
        "How many times as long as the plain forward; rising scores are the worst case for the strongest keys.",
        cases.statistics_cases,
        _peers("regard"),
        (
            SCORED,
            _time("plain", "regard: plain"),
            _ratio("entropy", "regard: entropy", "regard: plain"),
            _ratio("entropy and top 8", "regard: entropy and top 8", "regard: plain"),
        ),
    ),
    Section(
        "columns",
        "Column sums and pooled maps, after a forward",
        "What they add to the forward, in forwards. The map has 512 × 512 cells.",
        cases.column_cases,
        _peers("regard"),
        (
            CASE,
            _time("plain", "regard: plain"),
            _ratio("column_sums()", "regard: received", "regard: plain", less=1),
            _ratio("pooled()", "regard: map", "regard: plain", less=1),
        ),
    ),
    Section(
        "layer",
        "The layer, with projections, against nn.MultiheadAttention(need_weights=True)",
        "Both project in and out. `weights`: the same results, mean weights of n × n included. `statistics`: entropy "
        "and the 8 strongest keys of every head instead, in O(n) memory.",
        cases.multihead_cases,
        _peers("regard", "torch_module"),
        (
            CASE,
            _time("weights", "regard: weights"),
            _ratio("PyTorch's layer", "torch_module", "regard: weights"),
            _time("statistics", "regard: statistics"),
            _ratio("PyTorch's layer", "torch_module", "regard: statistics"),
        ),
    ),
    Section(
        "alternation",
        "Alternating with other libraries' threads, in one process",
        "A call right after a product of 300 × 512 × 512, relative to the same call alone.",
        cases.alternation_cases,
        _peers("alternation"),
        (
            CASE,
            _time("Regard", "alternation: alone"),
            _ratio("after F.linear", "alternation: after linear", "alternation: alone"),
            _ratio("after NumPy @", "alternation: after matmul", "alternation: alone"),
            _time("PyTorch", "alternation: PyTorch alone"),
            _ratio("after F.linear", "alternation: PyTorch after linear", "alternation: PyTorch alone"),
            _ratio("after NumPy @", "alternation: PyTorch after matmul", "alternation: PyTorch alone"),
        ),
    ),
)
FRESH = ("memory", "import")
NAMES = (*(section.name for section in SECTIONS), *FRESH)
