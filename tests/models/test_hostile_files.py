"""Small files with large claims: sizes are checked against the file before anything is allocated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from regard.errors import OptionError, RegardError
from regard.models import store
from regard.models.errors import BrokenFile, MissingFile
from regard.models.model import opened

from .checkpoints import transformers, write
from .test_bert import changed
from .test_llama import SMALL

MEGABYTE = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, transformers.LlamaConfig(**SMALL), "causal", "LlamaForCausalLM")
    return tmp_path


IN_A_PROCESS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
from regard.errors import RegardError
from regard.models.model import opened
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    opened(sys.argv[1])
except RegardError as problem:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, str(problem).splitlines()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize("power", [28, 31])
@pytest.mark.parametrize("part", ["vocabulary", "added_tokens"])
def test_a_huge_token_id_takes_no_memory(folder: Path, power: int, part: str) -> None:
    path = folder / "tokenizer.json"
    described = json.loads(path.read_text())
    if part == "vocabulary":
        described["model"]["vocab"]["table"] = 2**power
    else:
        described["added_tokens"].append(described["added_tokens"][0] | {"id": 2**power, "content": "<huge>"})
    path.write_text(json.dumps(described))
    run = subprocess.run([sys.executable, "-c", IN_A_PROCESS, str(folder)], capture_output=True, text=True, check=True)
    kilobytes, message = run.stdout.split(" ", 1)
    assert int(kilobytes) < 64 * 1024
    assert "tokens" in message


@pytest.mark.parametrize(
    "settings",
    [
        {"head_dim": 2**28, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"head_dim": 2**30},
        {"head_dim": 2**28, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
        {"num_attention_heads": 2**30, "head_dim": 2**30},
        {"hidden_size": 2**31 - 1},
        {"num_hidden_layers": 2**31 - 1},
        {"num_hidden_layers": 2**31 - 1, "layer_types": ["full_attention"] * 3},
        {"max_position_embeddings": 10**400},
        {"num_key_value_heads": 2**31 - 1},
        {"intermediate_size": 2**31 - 1},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_claimed_sizes_are_checked_before_allocation(folder: Path, settings: dict[str, Any]) -> None:
    changed(folder, **settings)
    tracemalloc.start()
    with pytest.raises(OptionError):
        opened(folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * MEGABYTE


FILES = ["config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json", "generation_config.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and devices")
@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
@pytest.mark.parametrize("name", FILES)
def test_only_regular_files_are_opened(folder: Path, name: str, kind: str) -> None:
    if name == "model.safetensors.index.json":
        (folder / "model.safetensors").unlink()
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    problems: list[BaseException] = []

    def open_it() -> None:
        try:
            opened(folder)
        except RegardError as problem:
            problems.append(problem)

    thread = threading.Thread(target=open_it, daemon=True)  # a daemon: waiting for a pipe must not hold up the tests
    thread.start()
    thread.join(120)
    assert not thread.is_alive()
    if name == "generation_config.json":  # optional: what is not a file is not there
        assert not problems
    else:
        assert isinstance(problems[0], (BrokenFile, MissingFile))
        assert name in str(problems[0])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and devices")
def test_a_device_is_not_a_gguf_file() -> None:
    with pytest.raises(BrokenFile, match="not a regular file"):
        opened("/dev/zero")


@pytest.mark.parametrize("file", ["a" * 10_000, "a\0b", "ä" * 200])
def test_impossible_file_names_in_an_index_are_refused(folder: Path, file: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(BrokenFile, match="which is not a file in the same folder") as caught:
        opened(folder)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["a" * 10_000, "a\0b", "~/" + "b" * 5000 + ".gguf"])
def test_impossible_names_of_models_are_refused(name: str) -> None:
    with pytest.raises(MissingFile, match="There is no model") as caught:
        store.find(name)
    assert len(str(caught.value)) < 800
