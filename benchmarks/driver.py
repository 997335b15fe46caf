"""Taking turns: every participant has its process, and only one of them works at a time."""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import machine
import truth
from cases import Case, inputs
from multihead import layer_input, layer_weights
from peers import GIB, PEERS
from worker import serve

LONGEST_CALL = 300.0  # seconds until a worker counts as lost
MOST_MEMORY = 4 * GIB  # for matrices of queries × keys that a peer builds
MOST_FOR_CONTEXT = GIB
LONG_ROUND = 10.0  # seconds: calls that take this long together average over disturbances by themselves
SLOW = 1.0  # seconds: a call this long needs no warming up, and verifying it is a repeat as good as any
LIMITS = ("limit", "limit_avx2")  # peers that say themselves how long they took


class Lost(Exception):
    """The worker's process died or hangs."""


class Refused(Exception):
    """The peer can't do this case."""


class Worker:
    def __init__(self, peer: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.peer = peer
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, peer), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, *request: Any) -> Any:
        try:
            self.pipe.send(request)
            if not self.pipe.poll(LONGEST_CALL):
                self.process.kill()
                raise Lost(f"no answer within {LONGEST_CALL:.0f} s")
            kind, answer = self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as problem:
            self.process.join(5)
            raise Lost(f"its process ended with code {self.process.exitcode}") from problem
        if kind == "problem":
            raise Refused(answer)
        return answer

    def end(self) -> None:
        if self.process.is_alive():
            self.pipe.send(("end",))
            self.process.join(10)
        if self.process.is_alive():
            self.process.kill()


@dataclass(frozen=True)
class Participant:
    """A call of a peer, and how long it takes, roughly."""

    key: str
    worker: Worker
    call: str
    estimate: float = 0.0

    @property
    def is_slow_context(self) -> bool:
        return self.estimate > SLOW and not PEERS[self.worker.peer].leading


@dataclass(frozen=True)
class Timing:
    """All repeats of one participant. `seconds` is the lower quartile: disturbances only make a repeat longer."""

    seconds: float
    median: float
    repeats: int

    @classmethod
    def of(cls, repeats: list[float]) -> Timing:
        return cls(lower_quartile(repeats), statistics.median(repeats), len(repeats))


def lower_quartile(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 4]


@dataclass
class Measured:
    """What came out of one case: a timing, or a reason why there is none, for each participant.

    A participant is a peer, or a peer's call: "regard", "regard: entropy".
    """

    section: str
    case: Case
    timings: dict[str, Timing] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    busy: float = 0.0  # share of the machine that others used just before

    def seconds(self, participant: str) -> float | None:
        timing = self.timings.get(participant)
        return None if timing is None else timing.seconds

    def ratio(self, participant: str, to: str = "regard") -> float | None:
        """How many times as long the participant takes as `to`."""
        above, below = self.seconds(participant), self.seconds(to)
        return above / below if above is not None and below is not None else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "section": self.section,
            "case": self.case.as_dict(),
            "busy_before": round(self.busy, 3),
            "timings": {key: asdict(timing) for key, timing in self.timings.items()},
            "not_timed": self.reasons,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Measured:
        timings = {key: Timing(**timing) for key, timing in given["timings"].items()}
        return cls(given["section"], Case(**given["case"]), timings, given["not_timed"], given["busy_before"])


@dataclass(frozen=True)
class Pace:
    """How long to look at a case."""

    rounds: int = 5
    turn: float = 0.06  # seconds of repeats in one turn of a participant
    budget: float = 6.0  # seconds for all rounds of a case, roughly
    samples: int = 40  # most repeats in a turn


class Driver:
    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.workers: dict[str, Worker] = {}
        self.warm: set[tuple[Worker, str]] = set()  # with the kinds of cases that they have loaded everything for

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.end()

    def measure(self, section: str, case: Case, names: tuple[str, ...]) -> Measured:
        """Verify and time the peers of these names on one case."""
        measured = Measured(section, case, busy=machine.wait_until_quiet())
        repeats: dict[str, list[float]] = {}
        self._take_turns(measured, [*self._verified(measured, names, repeats)], repeats)
        measured.timings = {key: Timing.of(seconds) for key, seconds in repeats.items() if seconds}
        self._forget(names)
        return measured

    def _verified(
        self, measured: Measured, names: tuple[str, ...], repeats: dict[str, list[float]]
    ) -> Iterator[Participant]:
        right = _expected(measured.case)
        for name in names:
            needed = PEERS[name].memory(measured.case)
            most = MOST_MEMORY if PEERS[name].leading else MOST_FOR_CONTEXT
            if needed > min(most, 0.6 * machine.memory()):
                measured.reasons[name] = f"needs {needed / GIB:.1f} GiB"
                continue
            try:
                worker = self._worker(name)
                self._warm_up(worker, measured.case)
                calls = worker.ask("prepare", measured.case)
            except (Lost, Refused) as problem:
                measured.reasons[name] = str(problem)
                continue
            for call in calls:
                key = name if call == "run" else f"{name}: {call}"
                try:
                    yield self._verify(measured, Participant(key, worker, call), right, repeats)
                except (Lost, Refused) as problem:
                    measured.reasons[key] = str(problem)

    def _warm_up(self, worker: Worker, case: Case) -> None:
        """The first call of a process loads libraries, which may take a second: a small case goes first."""
        if (worker, case.kind) in self.warm:
            return
        self.warm.add((worker, case.kind))
        for call in worker.ask("prepare", replace(case, queries=min(case.queries, 16), keys=16)):
            with suppress(Refused):
                worker.ask("run", call, 1, 1)

    def _verify(
        self, measured: Measured, one: Participant, right: truth.Results, repeats: dict[str, list[float]]
    ) -> Participant:
        self._sleep()
        seconds, found = one.worker.ask("verify", one.call)
        wrong = truth.disagreement(measured.case, found, right)
        if wrong:
            raise Refused(f"wrong: {wrong}")
        if seconds < SLOW:  # its first call: not a repeat, and a poor estimate
            return replace(one, estimate=min(one.worker.ask("run", one.call, 2, 1)))
        repeats[one.key] = [seconds]
        return replace(one, estimate=seconds)

    def _take_turns(self, measured: Measured, participants: list[Participant], repeats: dict[str, list[float]]) -> None:
        participants = [one for one in participants if not one.is_slow_context]  # these have their one repeat
        for turn in range(self._rounds(participants)):
            for one in _rotated(participants, turn):
                if one.key in measured.reasons:
                    continue
                self._sleep()
                try:
                    seconds = self._turn(one)
                except (Lost, Refused) as problem:
                    measured.reasons[one.key] = str(problem)
                    repeats.pop(one.key, None)
                else:
                    repeats.setdefault(one.key, []).extend(seconds)

    def _rounds(self, participants: list[Participant]) -> int:
        timed = (one for one in participants if one.worker.peer not in LIMITS)  # which takes a tenth of a second
        a_round = sum(max(self.pace.turn, one.estimate) for one in timed)
        if a_round > LONG_ROUND and all(one.estimate >= SLOW for one in participants):
            return 0
        return max(1, min(self.pace.rounds, round(self.pace.budget / max(a_round, 1e-9))))

    def _turn(self, one: Participant) -> list[float]:
        inner, repeats = 1, 1
        if one.worker.peer not in ("alternation", *LIMITS):  # whose repeats stand alone
            inner = max(1, int(5e-4 / max(one.estimate, 1e-7)))
        if one.worker.peer not in LIMITS:
            repeats = max(1, min(int(self.pace.turn / max(one.estimate * inner, 1e-7)), self.pace.samples))
        if one.estimate < SLOW:
            one.worker.ask("run", one.call, 1, inner)  # wakes threads and caches up
        seconds: list[float] = one.worker.ask("run", one.call, repeats, inner)
        return seconds

    def _worker(self, name: str) -> Worker:
        known = self.workers.get(name)
        if known is None or not known.process.is_alive():
            known = self.workers[name] = Worker(name)
        return known

    def _sleep(self) -> None:
        processes = (worker.process.pid for worker in self.workers.values() if worker.process.is_alive())
        machine.wait_until_asleep([process for process in processes if process is not None])

    def _forget(self, names: tuple[str, ...]) -> None:
        """Large arrays of a peer that sits out the next case would only take memory from the others."""
        for name in names:
            worker = self.workers.get(name)
            if worker is not None and worker.process.is_alive():
                worker.ask("forget")


def _rotated(participants: list[Participant], turn: int) -> list[Participant]:
    first = turn % max(1, len(participants))
    return participants[first:] + participants[:first]


def _expected(case: Case) -> truth.Results:
    if case.kind == "multihead":
        return truth.multihead_expected(case, layer_input(case), layer_weights(case))
    return truth.expected(case, inputs(case))
