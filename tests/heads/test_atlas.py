"""An atlas is the same however it was computed: at once, in shards, interrupted, or on a cluster."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from regard import codec
from regard.engines.select import native_engine
from regard.errors import OptionError
from regard.heads import atlas_folder as atlas
from regard.heads import corpus
from regard.heads.documents import documents_of
from regard.heads.exemplars import STRONGEST, Exemplars
from regard.heads.observation import observe
from regard.heads.statistics import NAMES, measure, repetition
from regard.heads.sums import FIELDS, UNIT, Estimate, Sums, estimate_mean
from regard.models.model import model

from ..models.checkpoints import WORDS
from . import atlas_runs
from .atlas_runs import SMALL
from .conftest import tiny_llama

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
RESULTS = ("statistics.parquet", "examples.parquet", "heads.json")


def text_of(seed, lines):
    generator = random.Random(seed)
    rows = [" ".join(generator.choices(WORDS, k=generator.randint(1, 25))) for _ in range(lines)]
    return "\n".join(row if place % 3 else row + "\n" for place, row in enumerate(rows)) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_llama(tmp_path_factory.mktemp("model")).folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    here = tmp_path_factory.mktemp("corpus")
    (here / "a.txt").write_text(text_of(1, 60), encoding="utf-8")
    rows = [json.dumps({"text": line}) for line in text_of(2, 30).splitlines()]
    (here / "b.jsonl").write_text("\n".join([*rows, "{broken", '{"other": 1}']), encoding="utf-8")
    table = pyarrow.table({"text": [*text_of(3, 30).splitlines(), None]})
    parquet.write_table(table, here / "c.parquet", row_group_size=12)
    return here


def begun(out, folder, files):
    reader = model(str(folder))
    return reader, atlas.start_atlas(out, reader, [str(files)], unit=SMALL, longest=64)


def run(out, reader, manifest, units=None, **options):
    units = atlas.units_of(manifest) if units is None else units
    atlas.run(out, manifest, units, atlas.in_this_process(reader, manifest), **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, folder, files):
    out = tmp_path_factory.mktemp("whole")
    reader, manifest = begun(out, folder, files)
    run(out, reader, manifest)
    assert atlas.sum_parts(out)[1] == 0
    return out


def started(how, *arguments, **pipes):
    """A run in a process of its own."""
    command = [sys.executable, str(Path(atlas_runs.__file__)), how, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **pipes)


def texts_of(given, unit):
    return [text for read in corpus.texts(given, unit) for text in read.texts]


def contents(out):
    return [(Path(out) / name).read_bytes() for name in RESULTS]


def test_the_sums_are_those_of_all_documents(whole, folder, files):
    reader = model(str(folder))
    manifest = atlas.Manifest.read(whole)
    total = Sums.of(NAMES, np.zeros((len(NAMES), len(FIELDS), len(reader.blocks), reader.heads)))
    for unit in manifest.corpus.units:
        for read in corpus.texts(manifest.corpus, unit):
            total += measure(reader, documents_of(reader, read.texts, 64))
    total += repetition(reader)
    table = parquet.read_table(whole / "statistics.parquet")
    assert json.loads(table.schema.metadata[b"regard"])["skipped"] == 3  # a broken line, one without text, a null
    for row in table.to_pylist():
        integers = total.integers[total.names.index(row["statistic"]), :, row["layer"], row["head"]]
        assert [row[name] for name in FIELDS] == [integer / UNIT for integer in integers]
        assert tuple(row[name] for name in Estimate._fields) == estimate_mean(*integers.tolist())


def test_examples_have_the_same_types_where_there_are_none(whole, tmp_path):
    atlas._write_examples(tmp_path / "none.parquet", Exemplars(2, 4))
    assert parquet.read_schema(tmp_path / "none.parquet").equals(parquet.read_schema(whole / "examples.parquet"))


def test_data_frames_compute_with_the_statistics(whole):
    pandas = pytest.importorskip("pandas")
    types = {field.name: str(field.type) for field in parquet.read_schema(whole / "statistics.parquet")}
    assert types == {
        "statistic": "string", "layer": "int32", "head": "int32", "documents": "int64", "mean": "double",
        "low": "double", "high": "double", **dict.fromkeys(FIELDS[1:], "double"),
    }  # fmt: skip
    frame = pandas.read_parquet(whole / "statistics.parquet")
    assert {name for name, kind in frame.dtypes.items() if kind.kind not in "iuf"} == {"statistic"}
    means = frame.pivot_table(values="mean", index="layer", columns="statistic")
    assert (means["entropy"] > 0).all()
    whole_means = frame["amount"] / frame["count"]
    assert ((whole_means - frame["mean"]).abs().dropna() < 1e-12).all()


def test_every_line_belongs_to_exactly_one_unit(files):
    given = corpus.open_corpus([str(files / "a.txt")], unit=SMALL)
    together = "\n".join(text for unit in given.units for text in texts_of(given, unit))
    assert together.split() == (files / "a.txt").read_text().split()
    assert len(given.units) > 3


@pytest.mark.parametrize("unit", [1, 97, 5000])
def test_units_of_any_size_lose_nothing_even_inside_long_lines_and_characters(tmp_path, monkeypatch, unit):
    monkeypatch.setattr(corpus, "LONGEST", 64)
    words = [f"wörd{number}漢" for number in range(300)]
    (tmp_path / "a.txt").write_text(" ".join(words[:200]) + "\n\n" + "\n".join(words[200:]), encoding="utf-8")
    given = corpus.open_corpus([tmp_path / "a.txt"], unit=unit)
    found = [text for one in given.units for text in texts_of(given, one)]
    kept = sum(word in text.split() for word in words for text in found)
    assert kept >= 300 - 2 * (len(" ".join(words[:200]).encode()) // 60)  # words at a cut are split, none is twice
    assert all(sum(text.split().count(word) for text in found) <= 1 for word in words)


def test_shards_merged_in_any_order_give_the_same_files(tmp_path, whole, folder, files):
    for shard in (3, 1, 2):
        reader, manifest = begun(tmp_path / f"{shard}", folder, files)
        run(tmp_path / f"{shard}", reader, manifest, atlas.units_of(manifest, (shard, 3)))
    profile, missing = atlas.merge([tmp_path / "2", tmp_path / "1"], tmp_path / "two")
    assert missing == len(atlas.units_of(manifest, (3, 3)))
    assert "are missing" in " ".join(profile.notes)
    assert atlas.merge([tmp_path / "3", tmp_path / "two", tmp_path / "1"], tmp_path / "all")[1] == 0
    assert contents(tmp_path / "all") == contents(whole)


def test_a_unit_is_not_counted_again_by_a_second_run(tmp_path, whole, folder, files):
    reader, manifest = begun(tmp_path, folder, files)
    seen = []
    for _ in range(2):
        run(tmp_path, reader, manifest, on_unit=lambda *done: seen.append(done))
    atlas.sum_parts(tmp_path)
    assert contents(tmp_path) == contents(whole)
    assert seen[-1] == seen[-2] == (seen[-1][1],) * 2  # the second run found everything done


def test_a_damaged_part_is_named_and_computed_again_once_it_is_deleted(tmp_path, whole, folder, files):
    reader, manifest = begun(tmp_path, folder, files)
    run(tmp_path, reader, manifest)
    part = tmp_path / "parts" / "000000.safetensors"
    part.write_bytes(part.read_bytes()[:200])
    for act in (lambda: atlas.sum_parts(tmp_path), lambda: run(tmp_path, reader, manifest)):
        with pytest.raises(OptionError, match=r"000000\.safetensors cannot be read .*\nDelete it"):
            act()
    part.unlink()
    run(tmp_path, reader, manifest)
    atlas.sum_parts(tmp_path)
    assert contents(tmp_path) == contents(whole)


def test_another_model_or_corpus_is_refused(tmp_path, whole, folder, files):
    other = tiny_llama(tmp_path / "other")
    (tmp_path / "x.txt").write_text("the cat sat", encoding="utf-8")
    with pytest.raises(OptionError, match="other files"):
        atlas.start_atlas(whole, model(str(folder)), [str(tmp_path / "x.txt")], longest=64)
    with pytest.raises(OptionError, match="has model"):
        atlas.start_atlas(whole, other.open(), [str(files)], unit=SMALL, longest=64)
    with pytest.raises(OptionError, match=r"no atlas\.json"):
        atlas.merge([tmp_path], tmp_path / "out")


@pytest.fixture
def copied(tmp_path, whole):
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def said_of(part):
    return codec.digest(part.about, part.tensors)


@pytest.mark.parametrize("name", ["parts/000000.safetensors", "parts/model.safetensors", "atlas.json"])
def test_a_flipped_bit_is_refused_by_name_or_changes_nothing(copied, name):
    manifest, unit = atlas.Manifest.read(copied), 0 if "0" in name else None
    path, content = copied / name, (copied / name).read_bytes()

    def read():
        return (
            atlas.Manifest.read(copied) if path.suffix == ".json" else said_of(atlas.read_part(copied, manifest, unit))
        )

    expected, refused = read(), 0
    places = range(0, len(content), max(1, len(content) // 200))
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            assert read() == expected
        except OptionError as problem:
            refused += path.name in str(problem)
    assert refused >= 0.8 * len(places)  # a blank of JSON may be another blank


def test_parts_of_another_atlas_or_unit_are_refused_by_name(tmp_path, copied, whole, folder):
    (tmp_path / "a.txt").write_text(text_of(9, 60), encoding="utf-8")
    reader = model(str(folder))
    other = atlas.start_atlas(tmp_path / "other", reader, [str(tmp_path / "a.txt")], unit=SMALL, longest=64)
    run(tmp_path / "other", reader, other, [0, 1])
    shutil.copy(atlas.part_path(tmp_path / "other", 0), copied / "parts")
    with pytest.raises(OptionError, match=r"000000\.safetensors is a part of another atlas"):
        atlas.sum_parts(copied)
    with pytest.raises(OptionError, match=r"000000\.safetensors is a part of another atlas"):
        atlas.merge([copied], tmp_path / "out")
    shutil.copy(atlas.part_path(whole, 1), atlas.part_path(copied, 0))
    with pytest.raises(OptionError, match=r"000000\.safetensors is that of unit 1"):
        atlas.sum_parts(copied)


def test_damaged_sums_of_the_model_are_named_before_units_are_computed(copied, folder, files):
    path = atlas.part_path(copied)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OptionError, match=r"model\.safetensors cannot be read"):
        begun(copied, folder, files)


def test_a_manifest_that_was_changed_or_is_of_an_older_format_is_refused(copied):
    path = copied / "atlas.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "layers": 7}))
    with pytest.raises(OptionError, match=r"atlas\.json' cannot be used: its content does not match its digest"):
        atlas.sum_parts(copied)
    path.write_text(json.dumps({**content, "format": 1}))
    with pytest.raises(OptionError, match=r"atlas\.json' cannot be used: it is of an older format, 1"):
        atlas.sum_parts(copied)


def test_an_atlas_does_not_go_on_with_a_corpus_that_was_rewritten_at_the_same_size(tmp_path, folder):
    path, reader = tmp_path / "a.txt", model(str(folder))
    text = text_of(4, 4000)
    path.write_text(text, encoding="utf-8")
    manifest = atlas.start_atlas(tmp_path / "out", reader, [str(path)], longest=64)
    swapped = text[:70_000] + text[70_000:70_040][::-1] + text[70_040:]
    assert len(text) > 200_000 and swapped != text
    path.write_text(swapped, encoding="utf-8")
    with pytest.raises(OptionError, match="of other files, or they have changed since"):
        atlas.start_atlas(tmp_path / "out", reader, [str(path)], longest=64)
    with pytest.raises(OptionError, match=r"a\.txt' is not the file that the atlas was begun with"):
        atlas.compute_unit(reader, manifest, 0)


def test_models_with_one_other_weight_or_another_tokeniser_are_told_apart(tmp_path, folder):
    reader = model(str(folder))
    shutil.copytree(folder, tmp_path / "other")
    assert atlas.model_digest(reader) == atlas.model_digest(model(str(tmp_path / "other")))
    (path,) = (tmp_path / "other").glob("*.safetensors")
    tensors = load_file(path)
    for name, array in tensors.items():
        changed = array.copy()
        changed.reshape(-1)[-1] += 1
        save_file({**tensors, name: changed}, path, {"format": "pt"})
        assert atlas.model_digest(model(str(tmp_path / "other"))) != atlas.model_digest(reader), name
    save_file(tensors, path, {"format": "pt"})
    file = tmp_path / "other" / "tokenizer.json"
    content = file.read_text(encoding="utf-8")
    exchanged = content.replace('"word68"', '"-"').replace('"word69"', '"word68"').replace('"-"', '"word69"')
    assert exchanged != content
    file.write_text(exchanged, encoding="utf-8")
    assert atlas.model_digest(model(str(tmp_path / "other"))) != atlas.model_digest(reader)


def test_of_two_processes_that_begin_different_corpora_in_one_folder_one_is_refused(tmp_path, folder):
    with ExitStack() as stack:
        processes = []
        for number in range(2):
            (tmp_path / f"{number}.txt").write_text(text_of(number, 5), encoding="utf-8")
            claiming = started("claims", folder, "", tmp_path / f"{number}.txt", stdin=subprocess.PIPE)
            processes.append(stack.enter_context(claiming))
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
        for turn in range(30):
            for process in processes if turn % 2 else reversed(processes):
                process.stdin.write(f"{tmp_path / f'out-{turn}'}\n")
                process.stdin.flush()
            answers = sorted(process.stdout.readline().strip() for process in processes)
            assert answers == ["accepted", "refused"], turn


def test_files_that_cannot_be_read_are_listed_and_the_others_counted(tmp_path, folder):
    (tmp_path / "good.txt").write_text("the cat sat", encoding="utf-8")
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    found = corpus.open_corpus([tmp_path, tmp_path / "missing.txt"])
    names = [Path(path).name for path, _ in found.unreadable]
    assert names == ["bad.parquet", "dangling.txt", "missing.txt", "pipe.txt"]
    assert len(found.units) == 1
    with pytest.raises(OptionError, match="holds no text"):
        corpus.open_corpus([tmp_path / "missing.txt"])


def test_latin_1_lines_are_skipped_and_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes("the cat\n\ncafé au lait\n\nsat".encode("latin-1"))
    given = corpus.open_corpus([tmp_path / "a.txt"])
    assert list(corpus.texts(given, given.units[0])) == [(["the cat", "sat"], 1, "")]


def test_json_lines_without_unicode_text_are_skipped_and_counted(tmp_path):
    halves = [b'{"text": "a \\ud800 b"}', b'{"text": "a \xed\xa0\x80 b"}']  # of a surrogate pair
    lines = [b'{"text": "the cat sat"}', *halves, b"[" * 10**4, b"7"]
    (tmp_path / "lines.jsonl").write_bytes(b"\n".join(lines))
    found = corpus.open_corpus([tmp_path / "lines.jsonl"])
    (block,) = corpus.texts(found, found.units[0])
    assert block.texts == ["the cat sat"] and block.skipped == 4


def test_examples_cover_the_tenths_and_point_at_the_words(whole):
    content = json.loads((whole / "heads.json").read_text())
    counts = np.array(content["tenths"])
    assert counts.sum() > 1000
    for link in content["examples"]:
        assert link["tenth"] == STRONGEST or link["tenth"] <= link["weight"] * 10 <= link["tenth"] + 1 + 1e-6
        for span in (link["query"], link["key"]):
            assert link["text"][slice(*span)] in [*WORDS, "<unk>"]
    by_head = [(link["layer"], link["head"], link["tenth"]) for link in content["examples"]]
    for layer, head, tenth in np.argwhere(counts):
        assert by_head.count((layer, head, tenth)) == min(3, counts[layer, head, tenth])


def test_the_strongest_links_of_each_head_are_among_the_examples(whole, folder):
    reader, manifest = model(str(folder)), atlas.Manifest.read(whole)
    weights: dict[tuple[int, int], list[float]] = {}
    for unit in manifest.corpus.units:
        for document in documents_of(reader, texts_of(manifest.corpus, unit), 64):
            for layer, seen in enumerate(observe(reader, [document])):
                dense = seen.attention[0]
                for head in range(reader.heads):
                    table = np.where(np.eye(len(document), dtype=bool), 0, dense[head])[1:, 1:]  # without the sink
                    weights.setdefault((layer, head), []).extend(table.max(axis=1) if table.size else [])
    content = json.loads((whole / "heads.json").read_text())
    for (layer, head), found in weights.items():
        ours = [
            link["weight"]
            for link in content["examples"]
            if (link["layer"], link["head"], link["tenth"]) == (layer, head, STRONGEST)
        ]
        np.testing.assert_allclose(ours, sorted(found, reverse=True)[:3], rtol=1e-4)


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments_changes_nothing(tmp_path, whole, folder, files, times):
    generator = random.Random(times)
    with started("alone", folder, tmp_path / "timed", files) as child:  # how long a whole run takes
        assert child.stdout.readline() == "begun\n"
        begin = time.monotonic()
        child.stdout.read()
        duration = time.monotonic() - begin
    out = tmp_path / "out"
    for _ in range(times):
        with started("alone", folder, out, files) as child:
            child.stdout.readline()
            with suppress(subprocess.TimeoutExpired):  # a tenth of a run or less, so that all are cut short
                child.wait(generator.uniform(0, duration / max(10, times)))
            child.kill()
    with started("alone", folder, out, files) as child:
        child.stdout.read()
        assert child.wait() == 0
    assert atlas.sum_parts(out)[1] == 0
    assert contents(out) == contents(whole)


def test_several_processes_and_any_number_of_threads_give_the_same_files(tmp_path, whole, folder, files):
    reader, manifest = begun(tmp_path, folder, files)
    with atlas.processes(2) as workers:
        atlas.run(tmp_path, manifest, atlas.units_of(manifest), atlas.others(workers, manifest))
    assert atlas.sum_parts(tmp_path)[1] == 0
    assert contents(tmp_path) == contents(whole)
    if native_engine() is None:
        return
    from regard import _core

    before, wanted = _core.threads(), said_of(atlas.compute_unit(reader, manifest, 0))
    try:
        for count in (1, 5):
            _core.set_threads(count)
            assert said_of(atlas.compute_unit(reader, manifest, 0)) == wanted
    finally:
        _core.set_threads(before)


def test_units_grow_with_the_corpus_and_blocks_do_not(tmp_path, monkeypatch):
    lines = [f"line {number} of the text" for number in range(900)]
    (tmp_path / "a.txt").write_text("\n\n".join(lines), encoding="utf-8")
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    parquet.write_table(pyarrow.table({"text": lines}), tmp_path / "c.parquet", row_group_size=500)
    monkeypatch.setattr(corpus, "BLOCK", 1000)
    for name in ("a.txt", "b.jsonl", "c.parquet"):
        for unit in (700, 1 << 20):
            given = corpus.open_corpus([tmp_path / name], unit=unit)
            blocks = [read.texts for one in given.units for read in corpus.texts(given, one)]
            assert [text for block in blocks for text in block] == lines
            assert max(sum(map(len, block)) for block in blocks) < 2000
            assert (len(given.units) > 10) == (unit == 700)


def test_damaged_rows_of_a_parquet_file_are_listed_and_the_rest_is_counted(tmp_path, folder):
    lines = [f"the cat sat {number}" for number in range(400)]
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": lines})
    parquet.write_table(table, path, row_group_size=200, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 40] = b"\xff" * 40
    path.write_bytes(content)
    reader = model(str(folder))
    manifest = atlas.start_atlas(tmp_path / "out", reader, [str(path)], longest=64)
    run(tmp_path / "out", reader, manifest)
    found, missing = atlas.sum_parts(tmp_path / "out")
    assert missing == 0 and found.about["documents"] == 200
    assert any(note.startswith(f"Not read: {path.resolve()}: ") for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "told"), [("dask", "done"), ("dask_with_a_killed_worker", "done 2")])
def test_a_dask_cluster_gives_the_same_even_if_a_worker_is_killed(tmp_path, whole, folder, files, how, told):
    pytest.importorskip("distributed")
    with started(how, folder, tmp_path, files) as process:
        output, problems = process.communicate()
    assert output.strip() == told, problems
    for out in [tmp_path, tmp_path / "second"][: 1 + (how == "dask")]:  # two atlases may share a cluster
        assert atlas.sum_parts(out)[1] == 0
        assert contents(out) == contents(whole)


def test_a_lost_scheduler_is_a_sentence_and_what_is_done_is_kept(tmp_path, whole, folder, files):
    pytest.importorskip("distributed")
    with started("dask_with_a_lost_scheduler", folder, tmp_path, files) as process:
        output, problems = process.communicate()
    assert "The connection to the Dask scheduler at 'tcp://127.0.0.1:" in output, problems
    assert "run the command again" in output
    reader, manifest = begun(tmp_path, folder, files)
    assert list((tmp_path / "parts").glob("0*"))
    run(tmp_path, reader, manifest)
    atlas.sum_parts(tmp_path)
    assert contents(tmp_path) == contents(whole)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        *((address, ".+") for address in ("xyz", "", "http://host:1", "host:port", "tcp://host")),
        ("127.0.0.1:{port}", "connection refused"),
        ("tcp://127.0.0.1:{port}", "connection refused"),
    ],
)
def test_a_scheduler_that_does_not_answer_is_named_with_the_reason(address, reason, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(atlas, "CONNECT_SECONDS", 0.5)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # no server listens there
        address = address.format(port=unused.getsockname()[1])
        with (
            pytest.raises(OptionError, match=rf"No Dask scheduler answers at '{address}': {reason}\.\nStart one"),
            atlas.cluster(address),
        ):
            pass


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 400 Bad Request\r\n\r\n"])
def test_a_server_that_is_not_a_scheduler_is_named(answer, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(atlas, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):  # until the test is over
                while True:
                    connection = server.accept()[0]
                    connection.sendall(answer)
                    held.append(connection)

        held: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        at = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(OptionError, match=rf"No Dask scheduler answers at '{at}': .+\.\nStart one"),
            atlas.cluster(at),
        ):
            pass


@pytest.mark.parametrize("ended_by", ["SIGTERM", "SIGKILL"])
def test_the_processes_of_a_run_end_with_it(tmp_path, folder, files, ended_by):
    with started("jobs", folder, tmp_path / "out", files) as process:
        assert process.stdout.readline().split()[0] == "0"
        workers = [int(number) for number in process.stdout.readline().split()[1:]]
        assert len(workers) == 2
        process.send_signal(getattr(signal, ended_by))
        try:
            process.communicate(timeout=120)  # the output ends when no process holds it
        except subprocess.TimeoutExpired:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            pytest.fail("its workers are alive")
