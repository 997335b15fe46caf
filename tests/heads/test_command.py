"""`regard heads` on the command line."""

import contextlib
import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import regard
from regard import codec
from regard.cli.app import app
from regard.errors import OptionError
from regard.viewer import heads_page

from .conftest import tiny_bert, tiny_llama

SMALL = Path(__file__).parent
TEXT = "the cat sat on the table so they left"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return str(tiny_bert(tmp_path_factory.mktemp("bert")).folder)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return str(tiny_llama(tmp_path_factory.mktemp("llama")).folder)


def said(*arguments):
    finished = CliRunner().invoke(app, ["heads", *arguments], catch_exceptions=False)
    assert finished.exit_code == 0, finished.output
    return finished.stdout


def refused(*arguments):
    finished = CliRunner().invoke(app, ["heads", *arguments], catch_exceptions=False)
    assert finished.exit_code == 2, finished.output
    assert "Traceback" not in finished.stderr
    return finished.stderr


def test_a_text_gives_a_label_for_every_head(bert):
    found = said("text", TEXT, "--model", bert)
    assert "Patterns in" in found
    for name in ("0.0", "0.4", "1.4"):
        assert f"\n{name} " in found


def test_every_format_holds_every_head(bert, tmp_path):
    rows = list(csv.DictReader(io.StringIO(said("text", TEXT, "--model", bert, "--show", "csv"))))
    assert len(rows) == 10 and float(rows[3]["previous"]) >= 0
    data = json.loads(said("text", TEXT, "--model", bert, "--show", "json"))
    assert data["layers"] == 2 and data["heads"] == 5
    by_name = {one["name"]: one for one in data["statistics"]}
    assert by_name["previous"]["mean"][0][3] == pytest.approx(float(rows[3]["previous"]))
    parquet = pytest.importorskip("pyarrow.parquet")
    said("text", TEXT, "--model", bert, "--out", str(tmp_path / "h.parquet"), "--out", str(tmp_path / "h.md"))
    table = parquet.read_table(tmp_path / "h.parquet")
    assert table["previous"].to_pylist()[3] == pytest.approx(float(rows[3]["previous"]))
    assert "| layer" in (tmp_path / "h.md").read_text()


def test_a_treebank_gives_a_head_for_each_relation(bert, tmp_path):
    broken = tmp_path / "dev.conllu"
    broken.write_text((SMALL / "small-dev.conllu").read_text() + "1\tbad\n\n", encoding="utf-8")
    finished = CliRunner().invoke(
        app, ["heads", "treebank", str(broken), "--model", bert, "--score", str(SMALL / "small-test.conllu")]
    )
    assert finished.exit_code == 0, finished.output
    assert "who does what" in finished.stdout and "determiner" in finished.stdout
    assert "1 malformed" in " ".join(finished.stdout.split())
    assert "line " in finished.stderr and "it has 2 columns, expected 10" in finished.stderr


def test_a_page_comes_from_a_text_a_treebank_and_what_earlier_runs_wrote(bert, llama, tmp_path):
    files = [str(tmp_path / name) for name in ("a.html", "a.json", "b.html", "both.html", "atlas.html")]
    said("text", TEXT, "--model", bert, "--out", files[0], "--out", files[1])
    small = ["treebank", str(SMALL / "small-dev.conllu"), "--no-untrained"]
    said(*small, "--model", bert, "--out", files[2])
    (tmp_path / "corpus.txt").write_text("the cat sat on the mat\n\nthe dog ran\n")
    pytest.importorskip("pyarrow")
    said("corpus", str(tmp_path / "corpus.txt"), "--model", llama, "--out", str(tmp_path / "atlas"))
    said("page", str(tmp_path / "atlas"), "--out", files[4])
    said("page", files[1], str(tmp_path / "atlas"), "--out", files[3])
    for file in files:
        assert Path(file).stat().st_size > 10_000
    titles = [Path(file).read_text().split("<title>")[1].split("<")[0] for file in files if file.endswith("html")]
    assert titles[0] == titles[1] == f"What the heads of {bert} do"
    assert titles[2] == f"What the heads of {bert} and {llama} do"


def test_a_page_of_a_changed_or_missing_model_has_numbers_without_maps(bert, tmp_path):
    path = tmp_path / "a.json"
    said("text", TEXT, "--model", bert, "--out", str(path))
    data = json.loads(path.read_text())
    del data["digest"]
    cases = (bert, ["0"] * 2, "has other weights now"), ("gone", data["weights"], "without attention maps")
    for model, weights, why in cases:
        path.write_text(json.dumps(codec.with_digest({**data, "model": model, "weights": weights})))
        finished = CliRunner().invoke(app, ["heads", "page", str(path), "--out", str(tmp_path / "a.html")])
        assert finished.exit_code == 0
        assert why in finished.stderr
    out = ["--out", str(tmp_path / "x.html")]
    assert "is not what regard heads" in refused("page", str(SMALL / "small-dev.conllu"), *out)
    assert "at most two models" in refused("page", "a", "b", "c", *out)


def test_a_page_is_not_made_of_a_damaged_file(bert, tmp_path):
    path = tmp_path / "a.json"
    said("text", TEXT, "--model", bert, "--out", str(path))
    content = path.read_bytes()
    complaint = r"a\.json'.* (damaged|is not what regard heads|cannot be read|has format)"
    for place in range(0, len(content), len(content) // 200):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with contextlib.suppress(ValueError):
            if json.loads(path.read_bytes()) == json.loads(content):
                continue  # a blank that has become another blank
        with pytest.raises(OptionError, match=complaint):
            heads_page.page([path])


def test_a_treebank_without_some_heads_is_measured_without_them(bert):
    small = ["treebank", str(SMALL / "small-dev.conllu"), "--no-untrained", "--show", "json", "--model", bert]
    whole, without = json.loads(said(*small)), json.loads(said(*small, "--silence", "0"))
    assert without["model"] == f"{bert} without 0"
    entropy = [{one["name"]: one for one in data["statistics"]}["entropy"]["mean"] for data in (whole, without)]
    assert entropy[0][0] == entropy[1][0]  # the silenced layer itself reads the same input
    assert entropy[0][1] != entropy[1][1]
    assert "changes" not in whole
    assert all(one["layer"] != 0 for one in without["relations"])  # a head that writes nothing finds nothing
    best = {(one["relation"], one["direction"]): one for one in whole["relations"]}
    left = {(one["relation"], one["direction"]): one for one in without["relations"]}
    for one in without["changes"]:
        before, after = best[one["relation"], one["direction"]], left[one["relation"], one["direction"]]
        assert one["before"]["accuracy"] == before["accuracy"] and one["after"]["accuracy"] == after["accuracy"]
        lost = after["accuracy"]["value"] - before["accuracy"]["value"]
        assert one["change"]["value"] == pytest.approx(lost, abs=1e-12)
        assert one["change"]["low"] <= one["change"]["value"] <= one["change"]["high"]
    assert "What silencing 0 changes" in said(*small[:3], "--model", bert, "--silence", "0")


def test_ablation_is_written_as_parquet(llama, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "ablation.parquet"
    said("ablate", TEXT, "--model", llama, "--out", str(path))
    table = parquet.read_table(path)
    assert table.num_rows == 18
    assert {"silenced", "hidden state", "loss"} <= set(table.column_names)


def test_a_single_treebank_is_divided(bert):
    found = said("treebank", str(SMALL / "small-dev.conllu"), "--model", bert, "--no-untrained", "--show", "json")
    data = json.loads(found)
    assert {one["relation"] for one in data["relations"]} >= {"determiner"}
    assert data["relations"][0]["untrained"] is None


def test_ablation_lists_heads_layers_and_a_pruning_curve(llama, bert):
    found = said("ablate", TEXT, "--model", llama)
    assert "first order" in found and "heads kept" in found and "layer 2" in found
    assert "13 heads" not in said("ablate", TEXT, "--model", bert)
    assert "layer 1" in said("ablate", TEXT, "--model", bert, "--silence", "1")


def test_ablation_over_a_corpus_equals_that_of_its_texts(llama, tmp_path):
    lines = ["the kids were scared of the lions", "love apple phones", "the cat sat on the table"]
    (tmp_path / "one.txt").write_text(f"{TEXT}\n\n{lines[0]}\n", encoding="utf-8")
    (tmp_path / "two.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines[1:]), encoding="utf-8")
    corpus = ("--corpus", str(tmp_path / "one.txt"), "--corpus", str(tmp_path / "two.jsonl"), "--show", "csv")
    whole = "\n\n".join([TEXT, *lines])
    for more in ((), ("--silence", "0.1")):
        expected = said("ablate", whole, "--model", llama, "--show", "csv", *more)
        assert said("ablate", *corpus, "--model", llama, *more) == expected
        assert expected != said("ablate", TEXT, "--model", llama, "--show", "csv", *more)
    assert "4 texts" in said("ablate", *corpus[:4], "--model", llama, "--silence", "0.1")
    assert "holds no text" in refused("ablate", "--corpus", str(tmp_path / "three.txt"), "--model", llama)


def test_ablation_of_a_corpus_with_transformers_equals_that_computed_here(llama, tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "one.txt").write_text(f"{TEXT}\n\nlove apple phones\n", encoding="utf-8")
    options = ("--corpus", str(tmp_path), "--silence", "0.1", "--show", "json")
    here, there = (json.loads(said("ablate", *options, "--model", name)) for name in (llama, f"hf:{llama}"))
    one, two = (next(iter(_numbers(found))) for found in (here, there))
    assert one == pytest.approx(two, abs=1e-4)


def _numbers(found):
    """The numbers of each row of all tables."""
    for table in found if isinstance(found, list) else [found]:
        for row in table["rows"]:
            yield [cell for cell in (row.values() if isinstance(row, dict) else row) if isinstance(cell, float)]


def test_the_pruning_curve_is_drawn(llama, bert, tmp_path):
    drawing, page = tmp_path / "curve.svg", tmp_path / "curve.html"
    said("ablate", TEXT, "--model", llama, "--out", str(drawing), "--out", str(page))
    root = ElementTree.fromstring(drawing.read_text(encoding="utf-8"))
    texts = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Loss", "Hidden state", "heads kept"} <= set(texts)
    assert "with none" in " ".join(texts)
    assert "<svg" in page.read_text(encoding="utf-8") and "first order" in page.read_text(encoding="utf-8")
    said("ablate", TEXT, "--model", bert, "--out", str(drawing))
    assert ">Loss<" not in drawing.read_text(encoding="utf-8")  # an encoder has no next token
    found = refused("ablate", TEXT, "--model", bert, "--silence", "1", "--out", str(drawing))
    assert "--silence has no pruning curve to draw" in found


def test_a_corpus_in_shards_merges_to_the_atlas_of_the_whole(llama, tmp_path):
    pytest.importorskip("pyarrow")
    corpus = tmp_path / "a.txt"
    corpus.write_text("\n\n".join([TEXT] * 5), encoding="utf-8")
    said("corpus", str(corpus), "--model", llama, "--out", str(tmp_path / "whole"))
    for shard in ("1/2", "2/2"):
        said("corpus", str(corpus), "--model", llama, "--out", str(tmp_path / shard[0]), "--shard", shard)
    assert "Patterns in" in said("merge", str(tmp_path / "1"), str(tmp_path / "2"), "--out", str(tmp_path / "all"))
    for name in ("statistics.parquet", "examples.parquet", "heads.json"):
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("text",), "Give a text"),
        (("text", "x", "--silence", "a.b"), "--silence is 'a.b'"),
        (("text", "x", "--silence", "9.9"), "counted from 0"),
        (("text", "x", "--file", "y.txt"), "not both"),
        (("text", " "), "contains no word"),
        (("ablate", ""), 'regard heads ablate "The cat sat"'),
        (("corpus", "nowhere.txt", "--out", "OUT", "--shard", "3/2"), "--shard is '3/2'"),
        (("corpus", "nowhere.txt", "--out", "OUT"), "holds no text"),
        (("corpus", "nowhere.txt", "--out", "OUT", "--dask", "xyz"), "No Dask scheduler answers at 'xyz'"),
        (("corpus", "nowhere.txt", "--out", "OUT", "--dask", "127.0.0.1:0"), "No Dask scheduler answers"),
        (("corpus", "nowhere.txt", "--out", "OUT", "--dask", "127.0.0.1:0", "--jobs", "2"), "leave out --jobs"),
        (("corpus", "nowhere.txt", "--out", __file__), "is a file"),
        (("text", "x", "--out", "a.svg"), "does not write svg"),
        (("text", "x", "--show", "svg"), "expected table, markdown, latex, csv, json, html or parquet"),
        (("treebank", "nowhere.conllu"), "cannot be read"),
    ],
)
def test_wrong_arguments_are_explained(bert, tmp_path, arguments, why):
    given = [str(tmp_path / "out") if one == "OUT" else one for one in arguments]
    assert why in " ".join(refused(*given, "--model", bert).split())


def test_a_text_without_a_subcommand_is_told_which_one():
    assert 'regard heads text "The cat sat"' in refused("The cat sat")
    assert "regard heads treebank" in refused("dev.conllu")


SUBCOMMANDS = ("text", "treebank", "corpus", "ablate", "merge", "page")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_subcommand_has_examples_and_at_most_ten_options(name):
    found = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["heads", name, "--help"]).stdout
    assert f"  regard heads {name} " in found
    assert max(map(len, found.splitlines())) <= 80
    assert found.count("\n  --") - 1 <= 10  # --help itself


def test_help_names_the_formats_that_a_command_writes():
    of_text, of_ablation = (
        " ".join(CliRunner(env={"COLUMNS": "200"}).invoke(app, ["heads", name, "--help"]).stdout.split())
        for name in ("text", "ablate")
    )
    assert "[table|markdown|latex|csv|json|html|parquet]" in of_text
    assert "svg|png|pdf" in of_ablation
    for command in ("see", "steps", "lookup", "scaling"):
        assert "parquet" not in CliRunner().invoke(app, [command, "--help"]).stdout


def test_pruned_checkpoints_say_which_way_and_open_again(tmp_path, bert, llama):
    told = said("prune", "0.1,0.4,1.0,1.5,2.2,2.3", "--model", f"hf:{llama}", "--out", str(tmp_path / "smaller"))
    assert "has 4 heads per layer on 2 key heads" in " ".join(told.split())
    assert "W_O set to zero" in " ".join(said("prune", "1", "--model", bert, "--out", str(tmp_path / "zeroed")).split())
    assert regard.model(tmp_path / "smaller").heads == 4
    assert "names 9.0" in refused("prune", "9.0", "--model", llama, "--out", str(tmp_path / "other"))
