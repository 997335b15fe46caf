"""The tokenisers of the page against the `tokenizers` library, to the id and to the offset."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from regard.models import files
from regard.models.files.gguf import open_gguf
from regard.viewer.bundle import script

from ...models.conftest import cache, minilm_path, smollm2_path
from ...node import node

pytest.importorskip("tokenizers")

from . import unicode_table
from .corpus import beyond, lines
from .fixtures import Case, of_metadata, small_cases, write_case, write_parts

__all__ = ["cache", "minilm_path", "smollm2_path"]


def compare(folder, cases, texts, readable):
    for case in cases:
        write_case(folder, case, texts, readable)
    run_node(folder, texts, "library.test.js")


def run_node(folder, texts, test_file):
    (folder / "lines.json").write_text(json.dumps(texts), encoding="utf-8")
    ended = subprocess.run(
        [node(), "--test", Path(__file__).parent / test_file],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "REGARD_FIXTURES": str(folder)},
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[:8000]


def real_cases(minilm_path, smollm2_path):
    file = json.loads((minilm_path / "tokenizer.json").read_text(encoding="utf-8"))
    return [
        Case("minilm", files.open_checkpoint(minilm_path).tokeniser, file=file),
        of_metadata("smollm2", dict(open_gguf(smollm2_path).metadata)),
    ]


def test_real_tokenisers_are_the_librarys(minilm_path, smollm2_path, tmp_path):
    texts = lines(12_000, [*range(0x10000), *beyond(4000)], together=16)
    assert len(texts) > 19_000
    compare(tmp_path, real_cases(minilm_path, smollm2_path), texts, readable=500)


@pytest.mark.slow
def test_normalizers_and_pre_tokenizers_are_the_librarys(tmp_path):
    texts = lines(2000, list(range(0x3000)), together=64, seed=3)
    write_parts(tmp_path, texts)
    run_node(tmp_path, texts, "parts.test.js")


@pytest.mark.slow
def test_every_option_is_the_librarys(tmp_path):
    compare(tmp_path, small_cases(tmp_path), lines(500, list(range(0, 0x10000, 61)), together=16), readable=60)


@pytest.mark.slow
def test_real_tokenisers_are_the_librarys_on_every_code_point(minilm_path, smollm2_path, tmp_path):
    texts = lines(100_000, [*range(0x10000), *beyond(60_000)], together=1, seed=7)
    assert len(texts) > 200_000
    compare(tmp_path, real_cases(minilm_path, smollm2_path), texts, readable=10_000)


def test_the_modules_can_be_bundled():
    assert "class Tokeniser" in script("models/tokenizers/tokeniser.js")
    assert "smollm" in script("models/tokenizers/gguf_vocabulary.js")


@pytest.mark.slow
def test_the_table_of_characters_is_the_librarys():
    """Measured with the library: a new version of it with other Unicode tables needs a new table."""
    assert unicode_table.FILE.read_text(encoding="utf-8") == unicode_table.table(), f"run {unicode_table.__file__}"
