"""The page of what heads do: every number of the profile is in it, and attention maps of short texts."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import OptionError
from regard.heads import profile
from regard.heads.exemplars import STRONGEST, Link
from regard.heads.treebank_relations import HeadScore, Interval, Score
from regard.viewer import frames, heads_page

from ..heads.conftest import tiny_bert, tiny_llama

NASTY = "the </script><img src=x onerror=alert(1)> cat"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return [make(tmp_path_factory.mktemp("heads")).open() for make in (tiny_bert, tiny_llama)]


def data_of(model: Any) -> dict[str, Any]:
    """A profile with relations and examples, as a treebank and a corpus would give them."""
    found = profile.profile_texts(model, ["the cat sat on the mat", NASTY])
    share = Interval(0.7, 0.6, 0.8)
    score = Score("object", "who does what", "to head", 1, 2, share, -2, Interval(0.3, 0.2, 0.4),
                  Interval(0.1, 0.0, 0.2), Interval(0.4, 0.3, 0.5), 1000, 1.0, 0.7, 0.4)  # fmt: skip
    by_head = HeadScore("object", "to head", 1, 2, share, Interval(0.4, 0.3, 0.5), 0.4)
    weak = by_head._replace(head=0, accuracy=Interval(0.2, 0.15, 0.25))
    link = Link(1, 2, 8, 5, 0.83, NASTY, (4, 13), (0, 3))
    parts: dict[str, Any] = {
        "scores": (score,),
        "by_head": (by_head, weak),
        "links": (link, link._replace(tenth=STRONGEST)),
    }
    whole = profile.Profile(found.model, NASTY, found.sums, found.ranks, **parts, notes=(NASTY,), about=found.about)
    data = whole.data()
    data["labels"][1][2] = []
    return data


def test_the_page_holds_statistics_labels_relations_examples_and_maps(models: list[Any], tmp_path: Path) -> None:
    data, reading = data_of(models[0]), models[0].read("the cat sat")
    path = heads_page.save(tmp_path / "heads.html", [data], [[reading]])
    text = path.read_text(encoding="utf-8")
    assert "<img src=x" not in text
    frame = re.search(r'id="regard-heads">([^<]*)<', text)
    assert frame is not None
    header, arrays = frames.unpack(b64decode(frame[1]))
    (found,) = header["models"]
    assert found["labels"] == data["labels"]
    assert found["statistics"][0]["mean"][1][2] == round(data["statistics"][0]["mean"][1][2], 4)
    assert {one["name"] for one in found["statistics"]} >= {"entropy", "induction", "rank of W_QK", "rank of W_OV"}
    (relation,) = found["relations"]  # the weak one is not telling
    assert (relation["arrow"], relation["offset"], relation["untrained"]) == ("object → verb", 0.3, 0.1)
    assert found["examples"][0]["text"] == NASTY
    layer = np.asarray(reading.attention(1)[:, :, :])
    np.testing.assert_allclose(arrays["weights_0_0"][1] / 255, layer, atol=0.5 / 255 + 1e-6)


def test_two_models_are_compared_and_three_are_not(models: list[Any]) -> None:
    both = [data_of(model) for model in models]
    readings = [[model.read("the cat sat")] for model in models]
    assert "What the heads of tiny and tiny do" in "".join(heads_page.pieces(both, readings))
    with pytest.raises(OptionError, match="one or two models; 3 came"):
        list(heads_page.pieces([*both, both[0]]))


def test_maps_of_another_model_or_of_long_texts_are_left_out(models: list[Any]) -> None:
    data = data_of(models[0])
    other = models[1].read("the cat sat")
    assert not heads_page._fits(other, data)
    long = models[1].read(" ".join(["cat"] * (heads_page.LONGEST + 1)))
    assert not heads_page._fits(long, data_of(models[1]))
    assert heads_page._fits(models[0].read("the cat sat"), data)
