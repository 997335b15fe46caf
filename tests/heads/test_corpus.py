"""A corpus is read whole, once, and only while its files are those that it was opened with."""

import io
import json
import os
import random
from pathlib import Path

import pytest

from regard import file_state
from regard.errors import OptionError
from regard.heads import corpus

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def texts_of(opened, unit):
    return [text for block in corpus.texts(opened, unit) for text in block.texts]


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_line_of_a_jsonl_file_counts_whatever_its_length(tmp_path, monkeypatch, pieces, extra, end):
    monkeypatch.setattr(corpus, "LONGEST", 64)
    text = "x" * (pieces * 64 + extra - len('{"text": ""}'))
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "first"}\n' + json.dumps({"text": text}) + end)
    opened = corpus.open_corpus([path])
    (block,) = corpus.texts(opened, opened.units[0])
    assert (block.texts, block.skipped) == (["first", text], 0)


def test_a_line_of_json_longer_than_the_limit_is_skipped_and_the_next_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "LONGEST", 64)
    monkeypatch.setattr(corpus, "LONGEST_LINE", 200)
    for number, end in enumerate(("", "\n", '\n"last"')):
        path = tmp_path / f"{number}.jsonl"
        path.write_text('"first"\n' + json.dumps("x" * 256) + end)
        opened = corpus.open_corpus([path])
        (block,) = corpus.texts(opened, opened.units[0])
        assert (block.texts, block.skipped) == (["first", "last"] if "last" in end else ["first"], 1)


@pytest.fixture
def bytes_read(monkeypatch):
    """How many bytes were read from files."""
    counted = [0]

    class Counted(io.FileIO):
        def readinto(self, buffer):
            count = super().readinto(buffer)
            counted[0] += count
            return count

    opened = Path.open

    def open_counted(path, mode="r", **options):
        return io.BufferedReader(Counted(path)) if mode == "rb" else opened(path, mode, **options)

    monkeypatch.setattr(Path, "open", open_counted)
    return counted


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_long_line_is_read_once_however_many_units_it_crosses(tmp_path, bytes_read, name):
    path = tmp_path / name
    path.write_bytes(b'"' + b"x " * 2**19 + b'"\n"last"\n')
    opened = corpus.open_corpus([path], unit=1 << 14)
    assert len(opened.units) == 65
    bytes_read[0] = 0
    texts = [text for unit in opened.units for text in texts_of(opened, unit)]
    assert texts[-1].strip('"\n') == "last" or texts[-1].endswith('"last"')
    buffers = len(opened.units) * 2 * io.DEFAULT_BUFFER_SIZE
    assert bytes_read[0] <= 2 * path.stat().st_size + buffers


@pytest.fixture
def rows_file(tmp_path):
    """A Parquet file of three row groups, one of them empty, and its texts."""
    texts = [f"document {number} of the corpus" for number in range(1200)]
    path = tmp_path / "a.parquet"
    with parquet.ParquetWriter(path, pyarrow.schema([("text", pyarrow.string())])) as writer:
        for part in (texts[:1000], [], texts[1000:]):
            writer.write_table(pyarrow.table({"text": pyarrow.array(part, pyarrow.string())}))
    return path, texts


def test_rows_of_a_parquet_file_are_decoded_once_however_many_units_there_are(rows_file, monkeypatch):
    path, texts = rows_file
    decoded = [0]

    class Counted(parquet.ParquetFile):  # type: ignore[name-defined]
        def iter_batches(self, *arguments, **options):
            for batch in super().iter_batches(*arguments, **options):
                decoded[0] += batch.num_rows
                yield batch

    monkeypatch.setattr(parquet, "ParquetFile", Counted)
    opened = corpus.open_corpus([path], unit=700)
    assert len(opened.units) > 30
    assert [text for unit in opened.units for text in texts_of(opened, unit)] == texts
    assert decoded[0] == len(texts)


def test_units_of_a_parquet_file_are_the_same_in_any_order(rows_file):
    path, _ = rows_file
    opened = corpus.open_corpus([path], unit=700)
    expected = [texts_of(opened, unit) for unit in opened.units]
    order = random.Random(0).sample(range(len(expected)), len(expected))
    for number in (*order, *order[::-1], *range(0, len(expected), 7)):
        assert texts_of(opened, opened.units[number]) == expected[number]


def test_a_file_that_was_rewritten_at_the_same_size_has_another_digest(tmp_path):
    path = tmp_path / "a.txt"
    content = b"the cat sat\n" * 50_000
    path.write_bytes(content)
    before = corpus.open_corpus([path]).files[0]
    path.write_bytes(content[:150_000] + b"THE" + content[150_003:])
    after = corpus.open_corpus([path]).files[0]
    assert after.size == before.size and after.digest != before.digest


def test_a_file_that_changes_after_it_was_opened_is_refused_by_name(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("the cat sat")
    (file,) = corpus.open_corpus([path]).files
    corpus.verify(file)
    path.write_text("the dog sat")
    os.utime(path, ns=(0, 0))
    with pytest.raises(OptionError, match=r"a\.txt' is not the file that the atlas was begun with"):
        corpus.verify(file)
    path.write_text("the cat sat")
    corpus.verify(file)
    path.unlink()
    with pytest.raises(OptionError, match=r"a\.txt' cannot be read"):
        corpus.verify(file)


def test_a_change_in_the_same_tick_of_a_coarse_clock_is_noticed(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("the cat sat")
    state = file_state.state_of(path)
    monkeypatch.setattr(file_state, "state_of", lambda _path: state)
    (file,) = corpus.open_corpus([path]).files
    path.write_text("the dog sat")
    with pytest.raises(OptionError, match=r"a\.txt' is not the file that the atlas was begun with"):
        corpus.verify(file)


def test_a_file_that_stays_the_same_is_not_read_again_to_verify_it(tmp_path, bytes_read, monkeypatch):
    monkeypatch.setattr(file_state, "SETTLED_SECONDS", -1.0)
    path = tmp_path / "a.txt"
    path.write_text("the cat sat")
    (file,) = corpus.open_corpus([path]).files
    bytes_read[0] = 0
    corpus.verify(file)
    assert bytes_read[0] == 0
