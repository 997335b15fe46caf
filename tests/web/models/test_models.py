"""Models that run in the page, in Node, against Python."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("tokenizers")

from regard.cli.app import app
from regard.errors import Unsupported
from regard.layers import Sinusoidal
from regard.models.model import opened
from regard.viewer import web_model

from ...models.checkpoints import transformers, write
from ...models.conftest import cache, minilm_path, smollm2_path
from ...models.test_llama import LLAMA3
from ...models.test_llama import SMALL as LLAMA
from ...node import node
from ...small_models import encoder, writer
from .fixtures import Case, write_case, write_sampling

__all__ = ["cache", "minilm_path", "smollm2_path"]

SENTENCE = "The kids were scared of the lions, so they left right away and went home: 12 naïve 東京 😀."
WORDS = "the kids were scared of the lions so they left right away action gets results"
HEAD = {"layer": 1, "head": 2}
CHANGES = (
    {"silenced": [[0, 1], [1, 0], [1, 2]]},
    {**HEAD, "divisor": 1.5},
    {**HEAD, "temperature": 0.4, "silenced": [[0, 0]]},
    {**HEAD, "mask": "none", "silenced": [[2, 1]]},
    {**HEAD, "mask": "causal", "divisor": 3.0},
    {"blocked": {"queries": [3, 5], "keys": [1, 2]}},
    {"blocked": {"queries": [4], "keys": [0], "heads": [[1, 1], [2, 0]]}, "silenced": [[0, 2]]},
)
SAMPLINGS = (
    {"temperature": 0.8, "seed": 3}, {"temperature": 1.2, "top_k": 7, "seed": 4},
    {"temperature": 1.0, "top_p": 0.6, "seed": 2**31 - 1},
)  # fmt: skip
BERT = {
    "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 29,
    "max_position_embeddings": 41,
}  # fmt: skip


def run_node(folder, test_file):
    ended = subprocess.run(
        [node(), "--test", "--test-reporter=dot", Path(__file__).parent / test_file],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "REGARD_FIXTURES": str(folder)},
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[:8000]


@pytest.mark.slow
def test_real_models_are_pythons(minilm_path, smollm2_path, tmp_path):
    minilm, smollm2 = opened(minilm_path, "minilm"), opened(smollm2_path, "smollm2")
    unmasked = [change for change in CHANGES if change.get("mask") != "none"]  # MiniLM has no mask
    write_case(tmp_path, Case("minilm", minilm, SENTENCE, changes=unmasked))
    story = "Once upon a time, there was a lion who"
    sampled = SAMPLINGS[1:2]
    write_case(tmp_path, Case("smollm2", smollm2, SENTENCE, story, 64, sampled, CHANGES[:3]), "float16")
    assert (tmp_path / "smollm2" / smollm2_path.name).is_file()  # the GGUF file itself
    write_sampling(tmp_path / "sampling.json")
    run_node(tmp_path, "models.test.js")
    run_node(tmp_path, "source.test.js")


def test_a_trained_model_is_pythons(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("REGARD_THREADS", "1")
    sizes = ("--layers", "3", "--heads", "3", "--width", "12", "--steps", "30")
    task = ("copy", "--set", "length=12,vocabulary=9,batch=4", "--out", str(tmp_path / "run"))
    ended = CliRunner().invoke(app, ["train", *task, *sizes], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    trained = opened(tmp_path / "run", "copy")
    folder = tmp_path / "fixtures"
    changes = [change for change in CHANGES if change.get("mask") != "causal"]
    write_case(folder, Case("trained", trained, "a b c d b a", "a b", 6, SAMPLINGS, changes))
    write_sampling(folder / "sampling.json")
    run_node(folder, "models.test.js")
    run_node(folder, "source.test.js")


def test_the_page_computes_what_rounding_its_weights_changes(minilm_path, tmp_path):
    def in_double(model, kind):
        weights = model.transformer.map(lambda array: (array.astype(kind) if array.ndim > 1 else array).astype(float))
        return replace(model, transformer=weights).read(web_model.REFERENCE).outputs

    expected = {}
    for model in (opened(minilm_path, "minilm"), encoder(layers=3)):
        web_model.write(model, tmp_path / model.name)
        pairs = zip(in_double(model, np.float32), in_double(model, np.float16), strict=True)
        expected[model.name] = max(float(np.abs(one - other).max()) for one, other in pairs)
    assert expected["minilm"] < 2e-3
    (tmp_path / "rounding.json").write_text(json.dumps(expected))
    run_node(tmp_path, "rounding.test.js")


def test_a_worker_runs_models_behind_messages(tmp_path):
    config = transformers.LlamaConfig(**LLAMA, rope_parameters=LLAMA3)
    for model in (small(tmp_path / "checkpoints", "LlamaForCausalLM", config), encoder()):
        web_model.write(model, tmp_path / "models" / model.name)
    run_node(tmp_path / "models", "worker.test.js")


def test_a_model_that_a_page_cannot_run_is_refused_when_it_is_written(tmp_path):
    with pytest.raises(Unsupported, match="A tokeniser with Metaspace in a page is not supported"):
        web_model.write(writer(), tmp_path)
    sines = replace(encoder(), transformer=replace(encoder().transformer, positions=Sinusoidal(16)))
    with pytest.raises(Unsupported, match="Sinusoidal or ALiBi positions in a page"):
        web_model.write(sines, tmp_path)
    assert not list(tmp_path.iterdir())


def small(folder, name, config, kind="causal"):
    write(folder / name, config, kind, name.partition("-")[0])
    return opened(folder / name, name)


def test_every_architecture_is_pythons(tmp_path):
    folder, checkpoints = tmp_path / "fixtures", tmp_path / "checkpoints"
    gpt2 = {"vocab_size": 31, "n_embd": 12, "n_layer": 3, "n_head": 3, "n_positions": 41}
    causal = {
        "GPT2LMHeadModel": transformers.GPT2Config(**gpt2, scale_attn_by_inverse_layer_idx=True),
        "GPT2LMHeadModel-untied": transformers.GPT2Config(**gpt2, tie_word_embeddings=False),
        "LlamaForCausalLM": transformers.LlamaConfig(**LLAMA, rope_parameters=LLAMA3, attention_bias=True),
        "MistralForCausalLM": transformers.MistralConfig(**LLAMA, sliding_window=3, head_dim=8),
        "Qwen2ForCausalLM": transformers.Qwen2Config(
            **LLAMA, use_sliding_window=True, sliding_window=4, max_window_layers=1
        ),
        "Qwen3ForCausalLM": transformers.Qwen3Config(**LLAMA, head_dim=10),
    }
    for name, config in causal.items():
        model = small(checkpoints, name, config)
        write_case(folder, Case(name, model, WORDS, "they left", 20, SAMPLINGS, CHANGES[:4]))
    bidirectional = {
        "BertModel": transformers.BertConfig(**BERT),
        "RobertaModel": transformers.RobertaConfig(**BERT, pad_token_id=1),
        "DistilBertModel": transformers.DistilBertConfig(
            vocab_size=31, dim=24, n_layers=3, n_heads=3, hidden_dim=29, max_position_embeddings=41
        ),
    }
    for name, config in bidirectional.items():
        model = small(checkpoints, name, config, "bert")
        write_case(folder, Case(name, model, WORDS, changes=[CHANGES[0], CHANGES[2], CHANGES[4]]))
    write_case(folder, Case("small-encoder", encoder(layers=3), WORDS, changes=CHANGES[4:]))
    write_sampling(folder / "sampling.json")
    run_node(folder, "models.test.js")
    run_node(folder, "source.test.js")
