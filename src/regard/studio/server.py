"""The studio's application.

Every route but / and /web/ needs the key (auth.py). Requests and answers are JSON, except frames. Errors are
{"error": "message"} with a status of 400 or more.

    GET    /                  the page
    GET    /web/{path}        the viewer's modules and style sheets, and each kind joined into one file
    GET    /start             {"text", "model", "reading", "description"?}: given on the command line; "site"?, the
                              address that shared views open at
    GET    /models            {"models": [{"name", "about", "here", "default", "size", "licence"}]}
    POST   /models/{name}     download a model → {"job"}
    POST   /read              {"text", "model"} → {"reading", "description", "stored"?}, or {"job"} for longer texts.
                              Refused: a text that is too long, with "fits", the UTF-16 units that could be read, and
                              "others", models that read more; a model that is not on this machine, with "download"
    GET    /texts/{id}        {"text"}: a text too long for an address; "stored" is its id
    POST   /generate          {"text", "model", "tokens", "temperature", "top_k", "top_p", "seed"} → {"job"}
    POST   /open?name=x.txt   a text file or a saved reading → {"reading", "description"} or {"job"}
    POST   /ask/{id}/{kind}   the parameters of a query → a frame
    GET    /readings/{id}     {"reading", "description"}: an open one
    DELETE /readings/{id}     close a reading
    GET    /jobs/{id}?after=N waits up to 20 s for a step after the Nth → {"state", "step", "progress", "message",
                              "text"?, "error"?, "reading"? and "description"? when done}; states are "waiting",
                              "running", "done", "failed" and "cancelled"
    DELETE /jobs/{id}         cancel a job
    GET    /shell?model=x     a one-file page with the viewer's code and nothing to show, with a model if one is named:
                              *Share* fills it in
    POST   /train             {"task"} → {"job"}, whose result is {"film"}
    GET    /films/{id}        a frame: the film of a training
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any, Generic, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from regard.codec import metadata_key
from regard.engines.memory import release
from regard.errors import RegardError
from regard.models.errors import TooLong
from regard.reading import Reading
from regard.studio import training
from regard.studio.auth import Refused
from regard.studio.jobs import Cancelled, CancelToken, Job, Jobs, Workers
from regard.studio.library import Library
from regard.viewer import bundle, frames, page, params
from regard.viewer.params import MOST_TEXT
from regard.viewer.queries import Answers, LookupAnswers, answers_for
from regard.viewer.similar import DEFAULT, Embedder

MOST_BODY = 4 << 20  # bytes of JSON
MOST_FILE = 1 << 30  # bytes of a saved reading
SECONDS = 30.0  # per answer
SECONDS_WHOLE = 180.0  # per map: an exact map of a long text takes a pass over all its weights
BODY_SECONDS = 20.0  # without a byte of a body
TIDY = 2.0  # seconds between checks for unattended jobs
START = 4096  # bytes that identify a file
MOST_FILMS = 3
SITE = "REGARD_SITE"  # the environment variable with the address of a site
FRAME = "application/octet-stream"


class Studio:
    """The application's state and routes."""

    def __init__(self, library: Library, text: str | None = None, shown: Any = None) -> None:
        self.library = library
        self.text = text
        self.workers = Workers()
        self.jobs = Jobs()
        self.readings: RecentItems[Answers | LookupAnswers] = RecentItems(
            "This reading has been closed: read the text again.", MOST_OPEN, MOST_OPEN_BYTES
        )
        self.texts: RecentItems[str] = RecentItems("This text is no longer known: paste it again.", MOST_STORED)
        self.films: RecentItems[bytes] = RecentItems("This film is no longer here: train again.", MOST_FILMS)
        self._embedder = Embedder(lambda: library.is_here(DEFAULT), lambda: library.model(DEFAULT))
        self.first = None if shown is None else self.readings.put(answers_for(shown, self._embedder), keep=True)

    def application(self) -> Starlette:
        """The ASGI application, without access control."""
        routes = [
            Route("/", self._page),
            Route("/web/{path:path}", self._file),
            Route("/start", self._start),
            Route("/models", self._models),
            Route("/models/{model:path}", self._download, methods=["POST"]),
            Route("/texts/{text}", self._text),
            Route("/readings/{reading}", self._reading, methods=["GET"]),
            Route("/read", self._read, methods=["POST"]),
            Route("/generate", self._generate, methods=["POST"]),
            Route("/open", self._open, methods=["POST"]),
            Route("/ask/{reading}/{kind}", self._ask, methods=["POST"]),
            Route("/readings/{reading}", self._close_reading, methods=["DELETE"]),
            Route("/shell", self._shell),
            Route("/train", self._train, methods=["POST"]),
            Route("/films/{film}", self._film),
            Route("/jobs/{job}", self._job, methods=["GET"]),
            Route("/jobs/{job}", self._cancel, methods=["DELETE"]),
        ]
        handlers: Any = dict.fromkeys((Refused, RegardError, HTTPException, Exception), _answer_failure)
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _application: Any) -> AsyncIterator[None]:
        if self.first is None and self.library.is_here(self.library.usual):
            self.jobs.prepare(lambda: self.library.model(self.library.usual))
        tidying = asyncio.ensure_future(self._tidy())
        joining = asyncio.ensure_future(asyncio.to_thread(lambda: [web_file(name) for name in BUNDLES]))
        try:
            yield
        finally:
            tidying.cancel()
            joining.cancel()
            self.close()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY)
            self.jobs.tidy()
            if self.readings.has_closed and not self.workers.busy and not self.jobs.running:
                self.readings.has_closed = False
                gc.collect()
                await asyncio.to_thread(release)  # the free list of large arrays holds up to 512 MB of closed readings

    def close(self) -> None:
        self.jobs.close()
        self.workers.close()

    # Pages

    async def _page(self, _request: Request) -> Response:
        return Response(INDEX, media_type="text/html")

    async def _file(self, request: Request) -> Response:
        content, kind = web_file(request.path_params["path"])
        return Response(content, headers={"content-type": kind})

    # Readings

    async def _start(self, request: Request) -> Response:
        answer: dict[str, Any] = {"reading": self.first, "text": self.text, "model": self.library.usual}
        if site := os.environ.get(SITE, "").strip():
            answer["site"] = site
        if self.first is not None:
            answer |= await self._describe(request, self.first)
        return _reply(answer)

    async def _models(self, _request: Request) -> Response:
        return _reply({"models": self.library.list_models()})

    async def _read(self, request: Request) -> Response:
        question = await _json(request, ("text", "model"))
        text = params.text("text", question.get("text"))
        return await self._read_text(request, text, self.library.check_name(question.get("model")))

    async def _read_text(self, request: Request, text: str, name: str) -> Response:
        self.library.check_here(name)
        stored = self._stored(text)
        if self.library.is_quick(name, text):

            def work(token: CancelToken) -> dict[str, Any]:
                token.stop()
                reading = self._reading_of(name, text)
                token.stop()  # the client may have sent the next text already
                return self._open_reading(reading)

            return _reply(await self.workers.answer(work, _wait_for_disconnect(request), SECONDS) | stored)

        def long_work(job: Job) -> dict[str, Any]:
            job.tell(message=f"Loading {name}.")
            self.library.model(name)
            job.tell(message=f"{name} is reading {len(text):,} characters.", progress=0.0)
            reading = self._reading_of(name, text, lambda done, of: job.tell(progress=done / of))
            return self._open_reading(reading) | stored

        return self._start_job(long_work, **stored)

    def _reading_of(self, name: str, text: str, on_layer: Callable[[int, int], None] | None = None) -> Reading:
        """The text as a model reads it; a refusal says how much it would read, and which models read more."""
        model = self.library.model(name)
        try:
            return model.read(text, on_layer=on_layer)
        except TooLong as problem:
            fits = len(model.beginning(text).encode("utf-16-le")) // 2
            sentence = str(problem).partition("\n")[0]
            others = self.library.longer(name, problem.tokens)
            raise Refused(400, sentence, fits=fits, others=others, **self._stored(text)) from None

    def _stored(self, text: str) -> dict[str, str]:
        """{"stored": id} for a long text, {} for a short one, which an address holds itself."""
        if len(text) <= LONG_TEXT // 2:  # a character is at most two units
            return {}
        return {"stored": self.texts.put(text, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16])}

    async def _text(self, request: Request) -> Response:
        return _reply({"text": self.texts.get(request.path_params["text"])})

    async def _download(self, request: Request) -> Response:
        name = self.library.check_name(request.path_params["model"])

        def work(job: Job) -> dict[str, Any]:
            def report(what: str, arrived: int, total: int) -> None:
                message = f"Downloading {what}: {arrived / 1e6:,.0f} of {total / 1e6:,.0f} MB."
                job.tell(message=message, progress=arrived / max(total, 1))

            job.tell(message=f"Asking for {name}.")
            self.library.fetch(name, report)
            return {"model": name}

        return self._start_job(work)

    async def _generate(self, request: Request) -> Response:
        question = await _json(request, ("text", "model", *params.GENERATION))
        text = params.text("text", question.get("text"))
        name = self.library.check_name(question.get("model"))
        tokens, sampling = params.generation(question)
        self.library.check_here(name)

        def work(job: Job) -> dict[str, Any]:
            job.tell(message=f"Loading {name}.")
            model = self.library.model(name)
            if not model.writes:
                raise Refused(400, f"{name} cannot generate text: choose another model.")
            written: list[str] = []

            def on_token(piece: str) -> None:
                written.append(piece)
                status = f"{name} is writing: {len(written)} of at most {tokens} tokens."
                job.tell(text="".join(written), progress=len(written) / tokens, message=status)

            job.tell(message=f"{name} is reading the prompt.", text="")
            return self._open_reading(model.generate(text, tokens, on_token=on_token, **sampling))

        return self._start_job(work)

    async def _open(self, request: Request) -> Response:
        """A file: a saved reading is recognised by its header, anything else is a text."""
        with _upload_file() as (file, path):
            start = await _store_body(request, file)
            if not is_saved(start):
                text = await asyncio.to_thread(_text_in, path)
                return await self._read_text(request, text, self.library.check_name(request.query_params.get("model")))

            def work(token: CancelToken) -> dict[str, Any]:
                try:
                    reading = replace(Reading.load(path), file="the opened file")
                    token.stop()
                    return self._open_reading(reading)
                except RegardError as problem:
                    raise Refused(400, str(problem).replace(str(path), "The file")) from None

            return _reply(await self.workers.answer(work, _wait_for_disconnect(request), SECONDS))

    async def _ask(self, request: Request) -> Response:
        answers = self.readings.get(request.path_params["reading"])
        question = await _json(request)
        kind = request.path_params["kind"]
        seconds, gone = SECONDS_WHOLE if kind == "tile" else SECONDS, _wait_for_disconnect(request)
        frame = await self.workers.answer(lambda token: answers.answer(kind, question, token.stop), gone, seconds)
        return Response(frame, media_type=FRAME)

    async def _reading(self, request: Request) -> Response:
        return _reply(await self._describe(request, request.path_params["reading"]))

    async def _describe(self, request: Request, name: str) -> dict[str, Any]:
        answers = self.readings.get(name)
        description = await self.workers.answer(
            lambda _token: answers.description(), _wait_for_disconnect(request), SECONDS
        )
        return {"reading": name, "description": description}

    async def _close_reading(self, request: Request) -> Response:
        self.readings.remove(request.path_params["reading"])
        return _reply({})

    def _open_reading(self, reading: Reading) -> dict[str, Any]:
        answers = answers_for(reading, self._embedder)
        return {"reading": self.readings.put(answers), "description": answers.description()}

    # Sharing and training

    async def _shell(self, request: Request) -> Response:
        name = request.query_params.get("model")
        if name is not None:
            self.library.check_here(self.library.check_name(name))

        def work(token: CancelToken) -> str:
            reader = None if name is None else self.library.model(name)
            token.stop()
            return "".join(page.shell(reader))

        return Response(
            await self.workers.answer(work, _wait_for_disconnect(request), SECONDS_WHOLE), media_type="text/html"
        )

    async def _train(self, request: Request) -> Response:
        task = (await _json(request, ("task",))).get("task")
        if task not in training.TASKS:
            raise Refused(400, f"`task` must be one of {', '.join(training.TASKS)}.")
        training.check()

        def work(job: Job) -> dict[str, Any]:
            job.tell(message="Starting PyTorch.", progress=0.0)
            film = training.run(task, lambda message, progress: job.tell(message=message, progress=progress))
            return {"film": self.films.put(film)}

        return self._start_job(work)

    async def _film(self, request: Request) -> Response:
        return Response(self.films.get(request.path_params["film"]), media_type=FRAME)

    # Jobs

    def _start_job(self, work: Callable[[Job], dict[str, Any]], **more: str) -> Response:
        return _reply({"job": self.jobs.start(work).name, **more}, 202)

    async def _job(self, request: Request) -> Response:
        job = self.jobs.get(request.path_params["job"])
        after = request.query_params.get("after", "-1")
        if not re.fullmatch(r"-?[0-9]{1,9}", after):
            raise Refused(400, "`after` must be an integer: the step of the last answer.")
        news, gone = asyncio.ensure_future(job.news(int(after))), asyncio.ensure_future(_wait_for_disconnect(request)())
        try:
            await asyncio.wait({news, gone}, return_when=asyncio.FIRST_COMPLETED)
            if news.done():
                return _reply(news.result())
            job.client_left()
            return Response(status_code=499)
        finally:
            news.cancel()
            gone.cancel()

    async def _cancel(self, request: Request) -> Response:
        job = self.jobs.get(request.path_params["job"])
        job.cancel()
        return _reply(job.status())


# Requests


def is_saved(start: bytes) -> bool:
    """Whether a file that starts like this is a saved reading: the header's length, then the header in JSON."""
    return start[8:9] == b"{" and metadata_key("reading").encode() in start


async def _json(request: Request, names: tuple[str, ...] | None = None) -> Any:
    """The body as a JSON object; with `names`, only these names are allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "Content-Type must be application/json.")
    body = b"".join([part async for part in _limit_body(request, MOST_BODY)])
    try:
        question = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "The body is not JSON.") from None
    if not isinstance(question, dict):
        raise Refused(400, "The body must be a JSON object.")
    return question if names is None else params.parameters(question, names)


async def _limit_body(request: Request, most: int) -> AsyncIterator[bytes]:
    """The parts of the body, each within a time limit, together within `most` bytes."""
    size = 0
    parts = request.stream()
    while True:
        try:
            part = await asyncio.wait_for(anext(parts), BODY_SECONDS)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, f"The body stopped for more than {BODY_SECONDS:g} seconds.") from None
        size += len(part)
        if size > most:
            raise Refused(413, f"The body has more than {most:,} bytes.")
        yield part


@contextmanager
def _upload_file() -> Iterator[tuple[Any, Path]]:
    """A temporary file and its path; the file has no name on disk, so that a killed process leaves nothing."""
    if Path("/dev/fd").exists():
        with TemporaryFile() as file:
            yield file, Path(f"/dev/fd/{file.fileno()}")
        return
    with NamedTemporaryFile(delete=False) as file:
        try:
            yield file, Path(file.name)
        finally:
            file.close()
            Path(file.name).unlink(missing_ok=True)


async def _store_body(request: Request, file: Any) -> bytes:
    """Write the body to a file; returns its first bytes."""
    start = b""
    async for part in _limit_body(request, MOST_FILE):
        start += part[: START - len(start)]
        await asyncio.to_thread(file.write, part)
    file.flush()
    return start


def _text_in(path: Path) -> str:
    if path.stat().st_size > 4 * MOST_TEXT:
        raise Refused(413, f"The text has more than {MOST_TEXT:,} characters.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(400, "The file is neither UTF-8 text nor a saved reading.") from None
    return params.text("text", text)


def _wait_for_disconnect(request: Request) -> Callable[[], Awaitable[None]]:
    """Completes when the client disconnects."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return watch


def _reply(content: dict[str, Any], status: int = 200) -> Response:
    return Response(frames.json_bytes(content), status, media_type="application/json")


# Errors


def _answer_failure(_request: Request, problem: Exception) -> Response:
    """The answer to a request that fails."""
    if isinstance(problem, Refused):
        return _reply({"error": str(problem), **problem.details}, problem.status)
    if isinstance(problem, RegardError):
        return _reply({"error": str(problem)}, 400)
    if isinstance(problem, HTTPException):
        messages = {404: "Not found.", 405: "Method not allowed."}
        return _reply({"error": messages.get(problem.status_code, problem.detail)}, problem.status_code)
    if isinstance(problem, (ClientDisconnect, Cancelled)):
        return Response(status_code=499)
    logging.getLogger("regard.studio").error("A request failed.", exc_info=problem)
    return _reply({"error": f"Internal error: {type(problem).__name__}."}, 500)


# The page, and the viewer's own files

INDEX = (Path(__file__).parent / "index.html").read_text(encoding="utf-8")  # links to its style sheet and its script
LONGEST_PATH = 200  # characters: a longer name raises OSError in is_file()
_PATH = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*\.(js|css|svg|wasm)")


# About a hundred modules took 0.5 to 0.9 s to request one by one; joined, they take a tenth of that.
BUNDLES: dict[str, Callable[[], str]] = {
    "studio_bundle.js": lambda: bundle.script("hosts/studio.js"),
    "studio_bundle.css": bundle.style,
}


def web_file(path: str) -> tuple[bytes, str]:
    """One of the viewer's files and its content type."""
    kind = {"js": "text/javascript", "wasm": "application/wasm"}.get(path.rpartition(".")[2])
    kind = kind or guess_type(path)[0] or "text/plain"
    if path in BUNDLES:
        return BUNDLES[path]().encode(), f"{kind}; charset=utf-8"
    resource = files("regard").joinpath("web", *path.split("/"))
    if len(path) > LONGEST_PATH or not _PATH.fullmatch(path) or not resource.is_file():
        raise Refused(404, "There is no such file.")
    return resource.read_bytes(), kind if path.endswith(".wasm") else f"{kind}; charset=utf-8"


# Open readings, long texts and films

MOST_OPEN = 48  # readings
MOST_OPEN_BYTES = 1 << 30
LONG_TEXT = 2_000  # UTF-16 units that an address holds
MOST_STORED = 64  # texts too long for an address
T = TypeVar("T")


class RecentItems(Generic[T]):
    """What was used last, by name."""

    def __init__(self, missing: str, most: int, most_bytes: int = MOST_OPEN_BYTES) -> None:
        self._items: OrderedDict[str, T] = OrderedDict()
        self._kept: set[str] = set()
        self._lock = threading.Lock()
        self._missing, self._most, self._most_bytes = missing, most, most_bytes
        self.has_closed = False  # whether memory of closed items is still to be returned to the system

    def put(self, item: T, name: str = "", keep: bool = False) -> str:
        """Keep an item under this or a new name, with `keep` forever; the oldest others make room."""
        name = name or secrets.token_hex(8)
        with self._lock:
            self._items[name] = item
            self._items.move_to_end(name)
            self._kept |= {name} if keep else set()
            others = [other for other in self._items if other not in self._kept]
            while len(others) > self._most or sum(self._size(other) for other in others) > self._most_bytes:
                oldest = others.pop(0)
                if oldest == name:
                    break
                self._close(oldest)
        return name

    def get(self, name: str) -> T:
        with self._lock:
            if name not in self._items:
                raise Refused(404, self._missing)
            self._items.move_to_end(name)
            return self._items[name]

    def remove(self, name: str) -> None:
        with self._lock:
            if name not in self._kept:
                self._close(name)

    def _close(self, name: str) -> None:
        self.has_closed |= self._items.pop(name, None) is not None

    def _size(self, name: str) -> int:
        return getattr(self._items[name], "nbytes", 0)

    def __len__(self) -> int:
        return len(self._items)
