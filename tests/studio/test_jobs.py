"""Work is cancelled when the client disconnects, and the server stays responsive meanwhile."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from regard.studio.auth import Refused
from regard.studio.jobs import Cancelled, Workers


def steps_until_cancelled(token, begun, ended):
    begun.set()
    try:
        while True:
            token.stop()
    except Cancelled:
        ended.set()
        raise


def run(main):
    """In a thread of its own: where a browser was tested before, the main thread has an event loop that still runs."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(main())).result()


async def never():
    await asyncio.Event().wait()


def test_work_is_cancelled_when_the_client_disconnects():
    async def main():
        workers, begun, ended = Workers(), threading.Event(), threading.Event()

        async def gone():
            await asyncio.to_thread(begun.wait)

        with pytest.raises(Refused, match="disconnected"):
            await workers.answer(lambda token: steps_until_cancelled(token, begun, ended), gone, 30)
        assert await asyncio.to_thread(ended.wait, 30)
        workers.close()

    run(main)


def test_work_that_takes_too_long_is_cancelled():
    async def main():
        workers, begun, ended = Workers(), threading.Event(), threading.Event()
        with pytest.raises(Refused, match="Cancelled after") as refused:
            await workers.answer(lambda token: steps_until_cancelled(token, begun, ended), never, 0.01)
        assert refused.value.status == 503
        assert await asyncio.to_thread(ended.wait, 30)
        workers.close()

    run(main)


def test_requests_waiting_for_a_thread_are_counted():
    async def main():
        workers, go_on = Workers(threads=1), threading.Event()
        asked = [asyncio.ensure_future(workers.answer(lambda _: go_on.wait(30), never, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        assert workers.busy == 3
        go_on.set()
        assert await asyncio.gather(*asked) == [True] * 3
        await asyncio.sleep(0)
        assert workers.busy == 0
        workers.close()

    run(main)


def test_closing_ends_all_work():
    async def main():
        workers, begun, ended = Workers(), threading.Event(), threading.Event()
        work = workers.answer(lambda token: steps_until_cancelled(token, begun, ended), never, 30)
        asked = asyncio.ensure_future(work)
        await asyncio.to_thread(begun.wait)
        workers.close()
        assert await asyncio.to_thread(ended.wait, 30)
        with pytest.raises(Cancelled):
            await asked

    run(main)
