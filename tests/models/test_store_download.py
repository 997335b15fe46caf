"""Downloads: interrupted, resumed, with wrong bytes, by two processes at once, killed halfway."""

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

from .serving import hub

CONTENT = bytes(range(256)) * 1500  # 384,000 bytes
HASH = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)


@pytest.fixture
def served():
    with hub() as state:
        state.files["/resolve/file"] = CONTENT
        yield state


def get(served, path, size=SIZE, sha256: str | None = HASH) -> list[int]:
    seen: list[int] = []
    download.download(f"{served.address}/resolve/file", path, size, sha256, seen.append)
    return seen


def left_beside(path):
    return sorted(one.name for one in path.parent.iterdir() if one != path)


def test_a_file_is_complete_and_progress_ends_at_its_size(served, tmp_path):
    seen = get(served, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert seen == sorted(seen) and seen[-1] == SIZE
    assert left_beside(tmp_path / "file") == []


def test_an_interrupted_download_is_resumed(served, tmp_path):
    served.breaks = [100_000, 50_000]
    get(served, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [span for _, span in served.asked] == [None, "bytes=100000-", "bytes=150000-"]


def test_without_range_requests_the_whole_file_is_requested(served, tmp_path):
    served.ranges, served.breaks = False, [100_000]
    get(served, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_partial_file_is_kept_for_the_next_run(served, tmp_path):
    served.breaks = [1000] * download.TRIES
    with pytest.raises(NotFetched, match=r"was interrupted after 4000 of 384000 bytes"):
        get(served, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert left_beside(tmp_path / "file") == ["file.part"]
    get(served, tmp_path / "file")
    assert served.asked[-1][1] == "bytes=4000-"
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_connection_without_data_is_not_retried_forever(served, tmp_path):
    served.breaks = [0] * 50
    with pytest.raises(NotFetched, match="was interrupted after 0"):
        get(served, tmp_path / "file")
    assert len(served.asked) == 1


@pytest.mark.parametrize("part", [b"of another version", CONTENT[:-1] + b"?", CONTENT + b"more"])
def test_a_partial_file_that_does_not_fit_is_discarded(served, tmp_path, part):
    (tmp_path / "file.part").write_bytes(part)
    get(served, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_complete_partial_file_needs_no_network(served, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    get(served, tmp_path / "file")
    assert served.asked == []
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_without_a_hash_nothing_is_resumed(served, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT[:5000])
    get(served, tmp_path / "file", sha256=None)
    assert served.asked == [("/resolve/file", None)]


def test_wrong_bytes_are_deleted_and_both_hashes_named(served, tmp_path):
    expected = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(download.WrongHash) as caught:
        get(served, tmp_path / "file", sha256=expected)
    assert HASH in str(caught.value) and expected in str(caught.value)
    assert "file from http://" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_expected_are_refused(served, tmp_path):
    with pytest.raises(NotFetched, match="more than the expected 1000 bytes"):
        get(served, tmp_path / "file", size=1000)
    assert not (tmp_path / "file").exists()


def test_a_full_disk_is_noticed_before_any_request(served, tmp_path):
    with pytest.raises(NotFetched, match="Free some space"):
        get(served, tmp_path / "file", size=2**60)
    assert served.asked == []


def test_only_http_addresses_are_opened(tmp_path):
    with pytest.raises(NotFetched, match="not an http or https address"):
        download.download("file:///etc/passwd", tmp_path / "file", 10, None, lambda _: None)


# Two processes, and one that is killed. Each runs the store as a program would.

FIND = "import sys; print('ready', flush=True); from regard.models import store; print(store.find('owner/tiny'))"
FILES = {"config.json": b'{"model_type": "tiny"}', "tokenizer.json": b"{}", "model.safetensors": CONTENT}


@pytest.fixture
def started(served, own_cache, monkeypatch):
    """Starts processes that find the model, and ends them with the test."""
    monkeypatch.setenv("HF_ENDPOINT", served.address)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    served.model("owner/tiny", FILES)
    served.gate = threading.Event()
    processes: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", FIND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout and process.stdout.readline() == "ready\n"
        return process

    yield start
    served.gate.set()
    for process in processes:
        process.kill()
        process.communicate()


def test_two_processes_download_every_file_once(served, started, own_cache):
    first, second = started(), started()
    assert served.begun.wait(60)
    served.gate.set()
    for process in (first, second):
        said, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
        assert said.strip() == str(own_cache / "owner--tiny")
    assert sorted(file for file, _ in served.downloads()) == sorted(FILES)
    assert (own_cache / "owner--tiny" / "model.safetensors").read_bytes() == CONTENT


def test_a_killed_process_leaves_no_lock_and_no_partial_model(served, started, own_cache):
    first = started()
    assert served.begun.wait(60)
    first.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    first.communicate(timeout=60)
    assert store.kept("owner/tiny") is None
    served.gate.set()
    second = started()
    assert second.communicate(timeout=60)[0].strip() == str(own_cache / "owner--tiny")
    kept = store.kept("owner/tiny")
    assert kept is not None
    assert {file: (kept.folder / file).read_bytes() for file in FILES} == FILES


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")
@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "link to nowhere"])
def test_a_partial_file_that_is_a_link_is_replaced_not_followed(served, tmp_path, kind):
    victim, part = tmp_path / "victim", tmp_path / "cache" / "file.part"
    part.parent.mkdir()
    victim.write_bytes(CONTENT[:1000])
    if kind == "hard link":
        part.hardlink_to(victim)
    else:
        part.symlink_to(victim if kind == "symbolic link" else tmp_path / "nowhere")
    get(served, tmp_path / "cache" / "file")
    assert victim.read_bytes() == CONTENT[:1000] and not (tmp_path / "nowhere").exists()
    assert (tmp_path / "cache" / "file").read_bytes() == CONTENT and not (tmp_path / "cache" / "file").is_symlink()
    part.unlink(missing_ok=True)
    part.symlink_to(victim)
    get(served, tmp_path / "cache" / "file", sha256=None)
    assert victim.read_bytes() == CONTENT[:1000]


def test_the_reported_share_of_a_download_never_falls(served, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", served.address)
    files = {"config.json": b"{}" * 5000, "model-1.safetensors": CONTENT, "model-2.safetensors": CONTENT * 2}
    served.model("owner/tiny", files)
    served.ranges, served.breaks = False, [100_000, 50_000, 300_000]  # begun again after each break
    reports = []
    with progress.observed(lambda _what, arrived, total: reports.append(arrived / total)):
        download.fetch_listing(download.listing("owner/tiny"), tmp_path)
    assert reports == sorted(reports) and reports[0] < 0.5 and reports[-1] == 1.0


def test_a_disk_that_is_full_is_told_in_sizes_that_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=1000))
    with pytest.raises(NotFetched, match=r"has 1000 bytes free; 12\.2 KiB are needed"):
        download.check_room(tmp_path, 12_500)


def test_a_download_reaches_the_disk_before_it_gets_its_name(served, tmp_path, monkeypatch):
    events: list[int | str] = []
    flush, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: events.append(os.fstat(handle).st_size) or flush(handle))
    monkeypatch.setattr(Path, "replace", lambda path, target: events.append("rename") or replace(path, target))
    get(served, tmp_path / "file")
    assert events[:2] == [SIZE, "rename"]
