"""The studio's answers: readings, queries, jobs, files, and a one-line error for every invalid request."""

import gc
import json
import time
import weakref
from typing import Any, cast

import numpy as np
import pytest

from regard.engines import memory
from regard.models import progress
from regard.models.errors import TooLong
from regard.studio import jobs, library, server, training
from regard.viewer import frames
from regard.viewer.params import MOST_TEXT
from regard.viewer.queries import answers_for

from .cases import Words, client, studio

ATTACKS = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u202etfel-ot-thgir", "שלום עולם",
    "👩‍👩‍👧‍👦 🏳️‍🌈", "nul\0l", "w" * 10_000, "'; DROP TABLE", "${7*7} {{7*7}} %s", "\u2028\u2029",
]  # fmt: skip


def read(browser, text="The cat sat"):
    reply = browser.post("/read", json={"text": text})
    assert reply.status_code == 200, reply.text
    return reply.json()


def finished(browser, job):
    """The last news of a job."""
    after = -1
    while True:
        news = browser.get(f"/jobs/{job}", params={"after": after}).json()
        if news["state"] in ("done", "failed", "cancelled"):
            return news
        after = news["step"]


def test_a_text_is_read_and_described_at_once():
    found = read(client())
    assert found["description"]["tokens"] == ["The", "cat", "sat"]
    assert found["description"]["causal"] is True


def test_queries_are_answered_by_frames():
    browser = client()
    name = read(browser)["reading"]
    reply = browser.post(f"/ask/{name}/row", json={"layer": 0, "heads": [1], "query": 2})
    _, arrays = frames.unpack(reply.content)
    weights = np.asarray(Words().read("The cat sat").attention(0))
    np.testing.assert_allclose(arrays["weight"][0], weights[1, 2], atol=1e-6)
    assert reply.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("text", ATTACKS, ids=lambda text: ascii(text)[:16])
def test_any_text_is_a_text(text):
    with client() as browser:
        found = browser.post("/read", json={"text": text}).json()
        found = finished(browser, found["job"]) if "job" in found else found
    assert found["description"]["text"] == text
    assert found["description"]["tokens"] == (text.split() or ["∅"])


def test_the_subject_of_the_command_line_is_open_from_the_start():
    reading = Words().read("a b c")
    begun = client(studio(shown=reading)).get("/start").json()
    assert begun["description"]["tokens"] == ["a", "b", "c"] and begun["reading"]
    assert client(studio(text="hello")).get("/start").json() == {"reading": None, "text": "hello", "model": "words"}


def test_the_models_are_listed_and_others_are_refused():
    browser = client()
    listed = {model["name"]: model for model in browser.get("/models").json()["models"]}
    assert {"minilm", "smollm2", "words"} <= set(listed) and listed["words"]["default"]
    names: list[Any] = ["../../etc/passwd", "/etc", "nobody/nothing", 5, [], ""]
    for name in names:
        reply = browser.post("/read", json={"text": "a", "model": name})
        assert reply.status_code == 400 and "Unknown model" in reply.json()["error"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b'{"text": 5}', b"{}", b'{"text": "a", "more": 1}', b"\xff\xfe",
     b"[" * 100_000, b'{"text": null}', b'{"text": "\\ud800"}', b'{"text": "a", "model": {}}', b'{"text": NaN}'],
)  # fmt: skip
def test_malformed_requests_get_a_one_line_error(body):
    reply = client().post("/read", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= reply.status_code < 500 and reply.json()["error"]


def test_other_kinds_of_bodies_are_refused():
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        reply = client().post("/read", content=b'{"text": "a"}', headers={"Content-Type": kind})
        assert reply.status_code == 415


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("row", {}), ("row", {"layer": 0, "heads": [9], "query": 0}), ("nothing", {}), ("tile", {"shape": [10**9, 1]}),
     ("row", {"layer": "0"}), ("describe", {"a": 1}), ("links", {"count": -1}), ("%2e%2e", {})],
)  # fmt: skip
def test_malformed_queries_get_a_one_line_error(kind, parameters):
    browser = client()
    reply = browser.post(f"/ask/{read(browser)['reading']}/{kind}", json=parameters)
    assert 400 <= reply.status_code < 500 and reply.json()["error"]


def test_missing_parts_are_refused():
    browser = client()
    assert browser.post("/ask/unknown/row", json={}).status_code == 404
    assert browser.get("/jobs/unknown").status_code == 404
    assert browser.get("/nothing").json() == {"error": "Not found."}
    assert browser.get("/read").status_code == 405


def test_long_texts_are_refused(monkeypatch):
    reply = client().post("/read", json={"text": "a" * (MOST_TEXT + 1)})
    assert reply.status_code == 400 and "400,001 characters" in reply.json()["error"]
    monkeypatch.setattr(server, "MOST_BODY", 1000)
    reply = client().post("/read", json={"text": "a" * 2000})
    assert reply.status_code == 413


def test_an_internal_error_reveals_no_details(monkeypatch):
    made = studio()

    def fails(_text):
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(made.library.model("words"), "read", fails)
    reply = client(made).post("/read", json={"text": "a"})
    assert reply.status_code == 500 and "secret" not in reply.text


# Limits of work


def test_too_many_concurrent_requests_are_refused(monkeypatch):
    monkeypatch.setattr(jobs, "MOST_AT_ONCE", 0)
    reply = client().post("/read", json={"text": "a"})
    assert reply.status_code == 429 and "try again" in reply.json()["error"]


def test_an_answer_that_takes_too_long_is_cancelled(monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.05)
    reader = Words()
    reader.go_on.clear()
    made = studio(reader)
    reply = client(made).post("/read", json={"text": "a"})
    reader.go_on.set()
    assert reply.status_code == 503 and "Cancelled after" in reply.json()["error"]


def test_only_the_newest_readings_are_kept(monkeypatch):
    made = studio(shown=Words().read("first"))
    made.readings._most = 3
    with client(made) as browser:
        names = [read(browser, f"text {place}")["reading"] for place in range(5)]
        known = [browser.post(f"/ask/{name}/describe", json={}).status_code for name in (made.first, *names)]
        assert known == [200, 404, 404, 200, 200, 200]
        browser.delete(f"/readings/{names[4]}")
        assert browser.post(f"/ask/{names[4]}/describe", json={}).status_code == 404
        browser.delete(f"/readings/{made.first}")
        assert browser.post(f"/ask/{made.first}/describe", json={}).status_code == 200


# Jobs


def test_long_texts_are_read_in_the_background():
    with client() as browser:
        text = "word " * 1000
        reply = browser.post("/read", json={"text": text})
        assert reply.status_code == 202
        news = finished(browser, reply.json()["job"])
        assert news["state"] == "done" and len(news["description"]["tokens"]) == 1000
        assert browser.post(f"/ask/{news['reading']}/describe", json={}).status_code == 200


def test_generation_reports_progress():
    with client() as browser:
        reply = browser.post("/generate", json={"text": "tra", "tokens": 3})
        news = finished(browser, reply.json()["job"])
        assert news["text"] == " la la la" and news["progress"] == 1.0
        assert news["description"]["tokens"] == ["tra", "la", "la", "la"]


def test_a_job_is_cancelled_on_request():
    reader = Words()
    reader.go_on.clear()
    with client(studio(reader)) as browser:
        job = browser.post("/generate", json={"text": "tra", "tokens": 1000}).json()["job"]
        assert reader.begun.wait(30)
        assert browser.delete(f"/jobs/{job}").json()["state"] == "cancelled"
        reader.go_on.set()
        assert finished(browser, job)["state"] == "cancelled"


def test_an_unattended_job_is_cancelled():
    reader = Words()
    reader.go_on.clear()
    made = studio(reader)
    with client(made) as browser:
        job = browser.post("/generate", json={"text": "tra", "tokens": 1000}).json()["job"]
        made.jobs.tidy(made.jobs.get(job).last_asked + jobs.UNATTENDED + 1)
        assert made.jobs.get(job).token.is_set()
        reader.go_on.set()
        assert finished(browser, job)["state"] == "cancelled"


def test_more_jobs_than_can_be_done_are_refused():
    reader = Words()
    reader.go_on.clear()
    with client(studio(reader)) as browser:
        replies = [browser.post("/generate", json={"text": "a"}).status_code for _ in range(5)]
        reader.go_on.set()
        assert replies == [202] * 4 + [429]


def test_a_failed_job_reports_the_reason():
    reader = Words()
    reader.writes = False
    with client(studio(reader)) as browser:
        job = browser.post("/generate", json={"text": "a"}).json()["job"]
        assert finished(browser, job)["error"] == "words cannot generate text: choose another model."


@pytest.mark.parametrize("after", ["x", "1.5", "²", "-", "9" * 30, "--1"])
def test_an_unknown_step_is_refused(after):
    with client() as browser:
        job = browser.post("/generate", json={"text": "a", "tokens": 1}).json()["job"]
        assert browser.get(f"/jobs/{job}", params={"after": after}).status_code == 400


# Files


def test_a_text_file_is_read():
    reply = client().post("/open?name=a.txt", content="\ufeffThe cat".encode())
    assert reply.json()["description"]["tokens"] == ["The", "cat"]


def test_a_saved_reading_is_opened(tmp_path):
    Words().read("The cat sat").save(tmp_path / "x.regard")
    reply = client().post("/open?name=x.regard", content=(tmp_path / "x.regard").read_bytes())
    assert reply.status_code == 200, reply.text
    assert reply.json()["description"]["tokens"] == ["The", "cat", "sat"]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"\x10\0\0\0\0\0\0\0" + json.dumps({"__metadata__": {"regard_reading": "{"}}).encode()]
)
def test_broken_files_are_refused_without_naming_ours(content):
    reply = client().post("/open", content=content)
    assert reply.status_code == 400 and "/" not in reply.json()["error"]


def test_no_file_stays_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client().post("/open", content=b"The cat")
    client().post("/open", content=b"\xff")
    assert not list(tmp_path.iterdir())


def test_long_texts_are_stored_for_addresses():
    with client() as browser:
        text = "wörd " * 500
        reply = browser.post("/read", json={"text": text}).json()
        found = finished(browser, reply["job"])
        assert found["stored"] == reply["stored"] and browser.get(f"/texts/{found['stored']}").json() == {"text": text}
        assert "stored" not in read(browser)
        assert browser.get("/texts/unknown").status_code == 404


def test_an_open_reading_can_be_opened_again():
    browser = client()
    found = read(browser)
    assert browser.get(f"/readings/{found['reading']}").json() == found
    browser.delete(f"/readings/{found['reading']}")
    assert browser.get(f"/readings/{found['reading']}").status_code == 404


def test_a_text_that_is_too_long_says_how_much_fits():
    class Short(Words):
        def read(self, text, on_layer=None):
            if len(text.split()) > 3:
                raise TooLong("The text has 9 tokens; words reads at most 3.\nRead it in parts.", 9)
            return super().read(text, on_layer)

        def beginning(self, text):
            return " ".join(text.split()[:3])

    reply = client(studio(Short())).post("/read", json={"text": "one 👩‍👩‍👧 three four"})
    assert reply.status_code == 400
    assert reply.json() == {
        "error": "The text has 9 tokens; words reads at most 3.", "fits": 18, "others": ["minilm", "smollm2"],
    }  # fmt: skip


def test_models_that_are_not_here_are_downloaded_on_request_alone(monkeypatch):
    fetched = []

    def fetch(name):
        progress.reporter(name, 200)(50)
        fetched.append(name)

    monkeypatch.setattr(library, "models_here", lambda: set(fetched))
    made = server.Studio(library.Library("words", load=lambda name: cast(Any, Words()), fetch=fetch))
    with client(made) as browser:
        for path in ("/read", "/generate"):
            reply = browser.post(path, json={"text": "a", "model": "minilm"})
            assert reply.status_code == 409 and reply.json()["download"] == "minilm"
            assert "91 MB" in reply.json()["error"]
        assert not fetched and browser.post("/models/nothing").status_code == 400
        assert finished(browser, browser.post("/models/minilm").json()["job"])["model"] == "minilm"
        assert fetched == ["minilm"]
        listed = {model["name"]: model["here"] for model in browser.get("/models").json()["models"]}
        assert listed == {"minilm": True, "smollm2": False, "words": True}
        assert "job" in browser.post("/read", json={"text": "a", "model": "minilm"}).json()


def test_a_closed_reading_is_freed_without_the_garbage_collector():
    readings: server.RecentItems[Any] = server.RecentItems("closed", 3)
    gc.disable()
    try:
        answers = answers_for(Words().read("The cat sat"))
        name = readings.put(answers)
        answers.answer("row", {"layer": 0, "heads": [0], "query": 1})
        gone = weakref.ref(answers)
        del answers
        readings.remove(name)
        assert gone() is None and readings.has_closed
    finally:
        gc.enable()


def test_memory_of_closed_readings_is_returned_to_the_system(monkeypatch):
    monkeypatch.setattr(server, "TIDY", 0.01)
    made = studio()
    with client(made) as browser:
        name = read(browser)["reading"]
        large = memory.empty((1000, 1000), np.dtype(np.float32))
        del large
        assert memory.waiting() >= 4_000_000
        browser.delete(f"/readings/{name}")
        until = time.monotonic() + 60
        while memory.waiting() and time.monotonic() < until:
            browser.get("/models")
    assert memory.waiting() == 0


def test_a_shell_is_a_page_without_a_reading():
    reply = client().get("/shell")
    assert reply.status_code == 200 and 'id="regard-wasm"' in reply.text and "regard-describe" not in reply.text
    assert "regard-weights" not in reply.text
    refused = client().get("/shell", params={"model": "../../etc/passwd"})
    assert refused.status_code == 400 and "Unknown model" in refused.json()["error"]


def test_a_training_is_a_job_whose_film_can_be_fetched(monkeypatch):
    def run(task, tell):
        tell("Step 1 of 2.", 0.5)
        return f"film of {task}".encode()

    monkeypatch.setattr("regard.studio.training.run", run)
    monkeypatch.setattr("regard.studio.server.training.check", lambda: None)
    with client() as browser:
        done = finished(browser, browser.post("/train", json={"task": "lookup"}).json()["job"])
        assert browser.get(f"/films/{done['film']}").content == b"film of lookup"
        assert browser.get("/films/other").status_code == 404
        assert browser.post("/train", json={"task": "rm -rf"}).status_code == 400


@pytest.mark.slow
def test_a_real_training_tells_its_steps_and_leaves_a_film(monkeypatch):
    """Twelve steps of the look-up task by the code that `regard train` runs, in a process of its own."""
    pytest.importorskip("torch")
    told = []
    run = training.run

    def few_steps(task, tell):
        def both(line, part):
            told.append((line, part))
            tell(line, part)

        return run(task, both, steps=12)

    monkeypatch.setattr(training, "run", few_steps)
    with client() as browser:
        done = finished(browser, browser.post("/train", json={"task": "lookup"}).json()["job"])
        header, arrays = frames.unpack(browser.get(f"/films/{done['film']}").content)
    assert told[-1][0].startswith("Step 12 of 12: loss ") and told[-1][1] == 1
    assert len(told) > 2 and [part for _, part in told] == sorted(part for _, part in told)
    assert header["steps"][-1] == 12
    first, *losses = header["loss"]  # the mean since the row before: there is none before the first
    assert first is None and losses and all(np.isfinite(losses))
    assert arrays["entropy"].shape[:1] == (len(header["steps"]),) and np.isfinite(arrays["entropy"]).all()
    assert np.abs(arrays["wq"][-1] - arrays["wq"][0]).max() > 0  # it did learn something


def test_without_pytorch_a_training_says_what_to_install(monkeypatch):
    monkeypatch.setattr("regard.errors.find_spec", lambda name: None)
    reply = client().post("/train", json={"task": "lookup"})
    assert reply.status_code == 400 and "pip install" in reply.json()["error"]


def test_shared_addresses_can_lead_to_a_site(monkeypatch):
    monkeypatch.setenv(server.SITE, "https://example.org/regard/")
    assert client(studio(text="hello")).get("/start").json()["site"] == "https://example.org/regard/"
