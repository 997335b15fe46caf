"""Downloads: interrupted, with wrong bytes, by two processes at once, cancelled, killed halfway."""

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.models import progress, store
from regard.models.errors import NotFetched
from regard.models.store import download
from regard.models.store.catalogue import File, Known

from .serving import hub

CONTENT = bytes(range(256)) * 1500  # 384,000 bytes
HASH = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)
FILES = {"config.json": b'{"model_type": "tiny"}', "tokenizer.json": b"{}", "model.safetensors": CONTENT}
TINY = Known(
    "tiny", "a model", "MIT", "A notice.\n", "owner/tiny", "no-such-wheel==1",
    tuple(File(name, len(content), hashlib.sha256(content).hexdigest(), name) for name, content in FILES.items()),
)  # fmt: skip


@pytest.fixture
def served(own_cache, monkeypatch):
    """A hub with a model, which is also in the catalogue; without a package index."""
    for name, value in {"NO_INDEX": "1", "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setitem(store.CATALOGUE, "tiny", TINY)
    with hub() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.address)
        state.model("owner/tiny", FILES)
        yield state


def contents_of(folder):
    return {file: (folder / file).read_bytes() for file in FILES}


# Into Hugging Face's cache


def test_an_interrupted_download_goes_on_where_it_broke_off(served):
    large, begun = CONTENT * 30, 10 * 2**20  # bytes that the library keeps at once
    served.model("owner/large", FILES | {"model.safetensors": large})
    served.breaks = [begun + 100]
    assert (store.find("owner/large") / "model.safetensors").read_bytes() == large
    assert served.downloads()[:2] == [("model.safetensors", None), ("model.safetensors", f"bytes={begun}-")]


def test_wrong_bytes_are_deleted_and_both_hashes_named(served):
    served.model("owner/tiny", FILES | {"model.safetensors": b"other"}, claimed={"model.safetensors": CONTENT})
    for _ in range(2):  # nothing is left that would pass as right
        with pytest.raises(download.WrongHash) as caught:
            store.find("owner/tiny")
        assert HASH in str(caught.value) and hashlib.sha256(b"other").hexdigest() in str(caught.value)
        assert "model.safetensors from http://" in str(caught.value)
        assert store.kept("owner/tiny") is None
    served.model("owner/tiny", FILES)
    assert contents_of(store.find("owner/tiny")) == FILES


def test_a_hub_cannot_have_a_file_of_the_user_deleted(served, tmp_path, hub_cache):
    (tmp_path / "precious").write_text("keep")
    blobs = hub_cache / "models--owner--tiny" / "blobs"
    served.etags["model.safetensors"] = os.path.relpath(tmp_path / "precious", blobs)
    with pytest.raises(download.WrongHash):
        store.find("owner/tiny")
    assert (tmp_path / "precious").read_text() == "keep" and store.kept("owner/tiny") is None


def test_a_file_of_another_size_is_refused(served, hub_cache):
    served.sizes["model.safetensors"] = SIZE + 1
    with pytest.raises(NotFetched, match=r"(?s)'owner/tiny' could not be downloaded.*should be of size 384001"):
        store.find("owner/tiny")
    assert not list(hub_cache.rglob("*.incomplete"))


@pytest.mark.parametrize("name", ["tiny", "owner/tiny"])
def test_a_full_disk_is_noticed_before_any_file_is_asked_for(served, monkeypatch, name):
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=1000))
    with pytest.raises(NotFetched, match=r"has 1000 bytes free; 375 KiB are needed.\nFree some space"):
        store.find(name)
    assert served.downloads() == []


def test_a_disk_that_fills_up_is_named_in_a_sentence(served, monkeypatch):
    def fail(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.file_download._download_to_tmp_and_move", fail)
    with pytest.raises(NotFetched, match=r"(?s)huggingface/hub cannot be written: no space left.*HF_HOME=/another"):
        store.find("owner/tiny")


def test_only_http_addresses_are_opened(own_cache, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(NotFetched, match="UnsupportedProtocol"):
        store.find("owner/tiny")


# Into Regard's cache


def test_the_reported_share_of_a_download_never_falls(served, monkeypatch):
    monkeypatch.setattr(download, "POLL_SECONDS", 0.01)
    served.breaks = [22, 2, 300_000]
    reports = []
    with progress.observed(lambda *report: reports.append(report)):
        assert contents_of(store.find("tiny")) == FILES
    assert reports[-1] == ("tiny", TINY.size, TINY.size)
    shares = [arrived for _, arrived, _ in reports]
    assert shares == sorted(shares) and shares[0] < TINY.size


def test_a_cancelled_download_leaves_nothing(served, own_cache):
    class Stop(Exception):
        pass

    served.gate = threading.Event()

    def cancel(*_report):
        if served.begun.is_set():
            raise Stop

    with pytest.raises(Stop), progress.observed(cancel):
        store.get("tiny")
    assert list((own_cache / "tiny").iterdir()) == []
    served.gate.set()
    assert contents_of(store.find("tiny")) == FILES


def test_a_disk_that_is_full_is_told_in_sizes_that_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=1000))
    with pytest.raises(NotFetched, match=r"has 1000 bytes free; 12\.2 KiB are needed"):
        download.check_room(tmp_path, 12_500)


def test_a_download_reaches_the_disk_before_it_gets_its_name(served, monkeypatch):
    events: list[int | str] = []
    flush, replace = os.fsync, Path.replace

    def recorded_flush(handle):
        events.append(os.fstat(handle).st_size)
        flush(handle)

    def recorded_replace(path, target):
        events.append(target.name)
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", recorded_flush)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    folder = store.find("tiny")
    assert events[events.index("model.safetensors") - 1] == SIZE
    assert [path for path in events if isinstance(path, str)] == [*FILES, "NOTICE", "regard.json"]
    assert contents_of(folder) == FILES


# Two processes, and one that is killed. Each runs the store as a program would.

FIND = """
import sys
print("ready", flush=True)
from regard.models import store
from regard.models.store.catalogue import File, Known
store.CATALOGUE["tiny"] = {TINY}
print(store.find(sys.argv[1]))
""".replace("{TINY}", repr(TINY))


@pytest.fixture
def started(served, monkeypatch):
    """Starts processes that find a model, and ends them with the test."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    served.gate = threading.Event()
    processes: list[subprocess.Popen[str]] = []

    def start(name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", FIND, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout and process.stdout.readline() == "ready\n"
        return process

    yield start
    served.gate.set()
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ["tiny", "owner/tiny"])
def test_two_processes_download_every_file_once(served, started, name):
    first, second = started(name), started(name)
    assert served.begun.wait(60)
    served.gate.set()
    for process in (first, second):
        said, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
        assert contents_of(Path(said.strip())) == FILES
    assert sorted(file for file, _ in served.downloads()) == sorted(FILES)


@pytest.mark.parametrize("name", ["tiny", "owner/tiny"])
def test_a_killed_process_leaves_no_lock_and_no_partial_model(served, started, name):
    first = started(name)
    assert served.begun.wait(60)
    first.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    first.communicate(timeout=60)
    assert store.kept(name) is None
    served.gate.set()
    second = started(name)
    assert contents_of(Path(second.communicate(timeout=60)[0].strip())) == FILES
    kept = store.kept(name)
    assert kept is not None and contents_of(kept.path) == FILES


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
@pytest.mark.parametrize("name", ["tiny", "owner/tiny"])
def test_control_c_ends_a_download_and_leaves_nothing_incomplete(served, started, own_cache, hub_cache, name):
    process = started(name)
    assert served.begun.wait(60)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT
    left = [*(own_cache / "tiny").rglob("*"), *hub_cache.rglob("*.incomplete")]
    assert left == [] and store.kept(name) is None
