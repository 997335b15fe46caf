"""The survey of transformers' testers tells apart what it counts, with models of ours in place of theirs."""

import os
import re
import signal
import sys
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel, PretrainedConfig, PreTrainedModel

from ..modules import module_of

SCRIPT = Path(__file__).parents[2] / "docs" / "survey_watch.py"


@pytest.fixture(scope="module")
def survey():
    yield module_of(SCRIPT)
    del sys.modules["survey_watch"]


class Tiny(PretrainedConfig):
    model_type = "tiny_of_the_survey"


class OneModule(PreTrainedModel):
    """A model that is one module of ours."""

    config_class = Tiny
    made = nn.Identity
    _supports_sdpa = False

    def __init__(self, config):
        super().__init__(config)
        self.inner = self.made()
        self.post_init()

    def forward(self, states):
        return {"states": self.inner(states)}


class Hidden(nn.Module):
    """Attention that no function shows: its softmax is written out."""

    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(8, 16)

    def forward(self, states):
        queries, keys = self.projection(states).chunk(2, -1)
        return torch.bmm(torch.softmax(torch.bmm(queries, keys.mT).sin(), -1).square(), states)


class Gate(nn.Module):
    """A router: its softmax is over experts, of scores of one linear layer."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)

    def forward(self, states):
        return torch.bmm(self.gate(states).softmax(-1), states[:, :1].expand(-1, 8, -1))


def case_of(kind, config, inputs):
    class Tester:
        def prepare_config_and_inputs_for_common(self):
            return config, inputs

    class Test(unittest.TestCase):
        all_model_classes = (kind,)

        def setUp(self):
            self.model_tester = Tester()

        def _prepare_for_class(self, inputs, kind):
            return inputs

        def test_nothing(self):
            pass

    return Test


def of_module(module):
    kind = type(f"{module.__name__}Model", (OneModule,), {"made": module})
    return case_of(kind, Tiny(), {"states": torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))})


LLAMA = LlamaConfig(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
)


def of_llama(kind=LlamaModel):
    ids = torch.randint(1, 61, (2, 7), generator=torch.Generator().manual_seed(1))
    return case_of(kind, LLAMA, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def test_a_model_whose_attentions_are_all_recorded_is_equal(survey):
    case = survey.survey_case(of_llama())
    assert (case.outcome, case.attentions) == ("equal", 3), case
    assert [(one.implementation, one.gradients) for one in case.watched] == [
        ("sdpa", False), ("eager", False), ("sdpa", True),
    ]  # fmt: skip
    assert all(one.matched == one.recorded == 3 and one.weights < 1e-6 for one in case.watched)
    assert case.watched[1].returned == case.watched[1].returned_matched == 3
    assert case.peak > 1.5  # far from uniform


def test_wrong_weights_are_noticed(survey, monkeypatch):
    from regard.watch.call import Call

    right = Call.attention
    monkeypatch.setattr(Call, "attention", lambda call: right(replace(call, scale=0.3)))
    case = survey.survey_case(of_llama())
    assert case.outcome == "wrong" and case.watched[0].weights > 1e-3, case


def test_changed_outputs_are_noticed(survey, monkeypatch):
    from regard.watch import interface

    right = interface._own

    def changed(*args):
        output, weights = right(*args)
        return output * 1.001, weights

    monkeypatch.setattr(interface, "_own", changed)
    assert survey.survey_case(of_llama()).outcome == "wrong"


def test_a_crash_inside_the_watched_model_is_named(survey):
    class Fragile(LlamaModel):
        def forward(self, *args, **kwargs):
            if self.config._attn_implementation.startswith("regard"):
                raise RuntimeError("no such implementation")
            return super().forward(*args, **kwargs)

    case = survey.survey_case(of_llama(Fragile))
    assert case.outcome == "crashes" and "no such implementation" in case.note


def test_the_softmax_of_an_attention_is_counted_and_that_of_a_router_is_not(survey):
    hidden, gate = survey.survey_case(of_module(Hidden)), survey.survey_case(of_module(Gate))
    assert (hidden.attentions, hidden.softmaxes) == (1, 1)
    assert (gate.attentions, gate.softmaxes, gate.outcome) == (0, 1, "no attention"), gate
    assert hidden.outcome == "refused" and "HiddenModel" in hidden.note, hidden


def test_a_process_that_dies_is_a_row(survey, monkeypatch):
    monkeypatch.setattr(survey, "survey_folder", lambda folder: os.kill(os.getpid(), signal.SIGKILL))
    rows: list[Any] = []
    survey.survey(["one", "other"], rows.append, jobs=2)
    assert sorted(row["folder"] for row in rows) == ["one", "other"]
    assert all(row["outcome"] == "crashes" and row["cases"][0]["note"] == "SIGKILL" for row in rows)


def test_the_table_counts_and_names(survey):
    watched = {
        "outcome": "partial",
        "weights": 2e-7,
        "output": 0.0,
        "unseen": ["pool.3.attn"],
        "named": ["pool.3.attn"],
    }
    partial = {"outcome": "partial", "note": "", "attentions": 4, "watched": [watched]}
    rows = {
        "some": {"folder": "some", "outcome": "partial", "cases": [partial]},
        "none": {"folder": "none", "outcome": "no attention", "cases": []},
    }
    page = survey.table(rows, "these versions")
    assert "| some | partial | 4 | 2e-07 | 0e+00 | `pool.*.attn` |" in page
    assert "| partial | 1 |" in page and "No attention: none." in page
    assert "crashes" not in page.partition("## ")[2]


def test_a_missing_helper_of_the_tests_does_not_keep_a_model_from_being_built(survey, tmp_path, monkeypatch):
    (tmp_path / "helpers_of_the_survey.py").write_text("old = 1\n")
    (tmp_path / "tests_of_the_survey.py").write_text("from helpers_of_the_survey import old, new\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = survey.import_past_missing_names("tests_of_the_survey")
    with pytest.raises(NotImplementedError, match="lacks"):
        module.new()


def test_the_documented_survey_has_no_silent_gap(survey):
    page = (SCRIPT.parent / "watch-architectures.md").read_text(encoding="utf-8")
    summary, _, rows = page.partition("| folder |")
    counts = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|", summary, re.MULTILINE))
    outcomes = re.findall(r"^\| \w+ \| ([a-z ]+) \|", rows, re.MULTILINE)
    assert not set(survey.NEVER) & set(counts) and not set(survey.NEVER) & set(outcomes)
    assert {outcome: outcomes.count(outcome) for outcome in set(outcomes)} == {
        outcome: int(count)
        for outcome, count in counts.items()
        if outcome not in ("no attention", "no model", "outcome")
    }
    assert outcomes.count("equal") + outcomes.count("recognised") >= 360
