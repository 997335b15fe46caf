"""`seen.reading`: everything that `regard see` and the viewer can do, of a watched model."""

import pickle

import numpy as np
import pytest
import torch

import regard
from regard import errors
from regard.watch.pretrained import Pretrained

from .models import bart, eager_weights, gemma3, llama

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "looked", "at", "dogs", "that", "ran", "away"]


@pytest.fixture(scope="module")
def tokenizer():
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: place for place, word in enumerate(["[PAD]", "[CLS]", "[UNK]", *WORDS])}
    engine = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    engine.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    engine.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=engine, pad_token="[PAD]", cls_token="[CLS]", unk_token="[UNK]", padding_side="left"
    )


@pytest.mark.parametrize("make", [llama, gemma3])
def test_a_padded_batch_gives_each_sentence_without_its_padding(tokenizer, make):
    model, texts = make(), ["the cat sat on a mat", "dogs ran"]
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with regard.watch(model) as seen, torch.no_grad():
        model(**inputs)
    for batch, text in enumerate(texts):
        reading = seen.reading(tokenizer, inputs, batch=batch)
        assert [word.text for word in reading.words] == ["[CLS]", *text.split()]
        alone = tokenizer(text, return_tensors="pt")
        expected = eager_weights(model, **alone).attentions
        for layer, weights in enumerate(expected):
            np.testing.assert_allclose(reading.weights(layer=layer, by="token"), weights[0].mean(0), atol=3e-6)
        certificate = reading.certificate
        assert certificate.row_sums < 1e-5 and certificate.forbidden == 0 and certificate.output < 1e-4


@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_of_a_batch_are_read_by_their_place_in_it(tokenizer, side, monkeypatch):
    monkeypatch.setattr(tokenizer, "padding_side", side)
    model, texts = llama(), ["the cat sat on a mat", "dogs ran"]
    with regard.watch(model) as seen, torch.no_grad():
        model(**tokenizer(texts, return_tensors="pt", padding=True))
    for batch, text in enumerate(texts):
        assert seen.reading(tokenizer, texts, batch=batch).text == text
    with pytest.raises(errors.OutOfRange, match="batch 2"):
        seen.reading(tokenizer, texts, batch=2)
    with pytest.raises(errors.OptionError, match="of one length"):
        seen.reading(tokenizer, [[1, 3], [4]], batch=1)


def test_a_text_and_generated_tokens(tokenizer):
    model, text = llama(), "the cat sat on a mat"
    inputs = tokenizer(text, return_tensors="pt")
    with regard.watch(model) as seen, torch.no_grad():
        model(**inputs)
    reading = seen.reading(tokenizer, text)
    assert reading.text == text and reading.model == "LlamaForCausalLM"
    assert len(reading.strongest("mat")) > 0
    with regard.watch(model) as seen, torch.no_grad():
        written = model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    reading = seen.reading(tokenizer, written)
    assert len(reading.tokens) == written.shape[1] - 1
    assert "mat" in [word.text for word in reading.words]


def test_the_encoder_of_an_encoder_and_decoder(tokenizer):
    model, text = bart(), "the cat sat on a mat"
    inputs = tokenizer(text, return_tensors="pt")
    with regard.watch(model) as seen, torch.no_grad():
        model(input_ids=inputs["input_ids"], decoder_input_ids=torch.tensor([[2, 5, 6]]))
    reading = seen.reading(tokenizer, text)
    assert reading.attention(1).shape == (4, 7, 7)


def test_too_few_tokens_are_refused(tokenizer):
    model = llama()
    with regard.watch(model) as seen, torch.no_grad():
        model(**tokenizer("the cat sat on a mat", return_tensors="pt"))
    with pytest.raises(errors.OptionError, match="hold 3 tokens"):
        seen.reading(tokenizer, "the cat")


def test_a_real_model_reads_as_regards_own_engine_does(minilm_path):
    text = "The kids were scared of the lions, so they left right away."
    found, expected = Pretrained.open(str(minilm_path)).read(text), regard.model(str(minilm_path)).read(text)
    assert [token.text for token in found.tokens] == [token.text for token in expected.tokens]
    for layer in range(6):
        np.testing.assert_allclose(found.weights(layer=layer), expected.weights(layer=layer), atol=2e-6)
    assert found.certificate.output < 1e-5


@pytest.mark.slow
def test_smollm2_generates_the_same_tokens_and_the_certificate_holds(smollm2_path):
    """A real model: 100 tokens, watched and unwatched."""
    from transformers import PreTrainedTokenizerFast

    ours = regard.model("smollm2")
    model, tokenizer = in_transformers(ours), PreTrainedTokenizerFast(tokenizer_object=ours.tokeniser.engine)
    inputs = {"input_ids": torch.tensor([ours.tokeniser.encode("Once upon a time").ids])}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    options = {"max_new_tokens": 100, "min_new_tokens": 100, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(**inputs, **options)
    with regard.watch(model) as seen:
        watched = model.generate(**inputs, **options)
    assert torch.equal(plain, watched)
    reading = seen.reading(tokenizer, watched)
    assert len(reading.tokens) == watched.shape[1] - 1
    certificate = reading.certificate
    assert certificate.row_sums < 1e-5 and certificate.forbidden == 0 and certificate.output < 1e-4


def in_transformers(ours):
    """A Llama of transformers with the weights of ours, which come from one GGUF file."""
    from transformers import LlamaConfig, LlamaForCausalLM

    names = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "rms_norm_eps", "rope_theta", "max_position_embeddings", "vocab_size",
    )  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**{name: ours.config[name] for name in names}, tie_word_embeddings=True))
    arrays = {"model.embed_tokens": ours.transformer.embedding, "lm_head": ours.transformer.embedding}
    arrays["model.norm"] = ours.transformer.norm
    for place, block in enumerate(ours.blocks):
        at = f"model.layers.{place}"
        arrays |= {f"{at}.self_attn.{letter}_proj": getattr(block.attention, f"w_{letter}") for letter in "qkvo"}
        arrays |= {f"{at}.mlp.{name}_proj": getattr(block.feed_forward, name) for name in ("gate", "up", "down")}
        arrays |= {f"{at}.input_layernorm": block.norm_1, f"{at}.post_attention_layernorm": block.norm_2}
    weights = {f"{name}.weight": torch.from_numpy(np.array(part.weight)) for name, part in arrays.items()}
    model.load_state_dict(weights)
    return model.eval()


def test_a_reading_of_some_layers_and_heads_keeps_the_models_numbers(tokenizer):
    model, text = llama(), "the cat sat on a mat"
    inputs = tokenizer(text, return_tensors="pt")
    with regard.watch(model, layers=[2], heads=[3, 1]) as seen, torch.no_grad():
        model(**inputs)
    with regard.watch(model) as everything, torch.no_grad():
        model(**inputs)
    some, whole = seen.reading(tokenizer, text), everything.reading(tokenizer, text)
    assert (some.layer_numbers, some.head_numbers) == ((2,), (3, 1))
    expected = [row for row in whole.heads_for("mat", "cat") if row[0] == 2 and row[1] in (1, 3)]
    found = some.heads_for("mat", "cat")
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    np.testing.assert_allclose(found["weight"], [row[3] for row in expected], atol=1e-6)
    np.testing.assert_allclose(some.weights(layer=2, head=3), whole.weights(layer=2, head=3), atol=1e-6)
    with pytest.raises(errors.OutOfRange, match="`layer` is 0, which was not recorded; recorded: 2"):
        some.attention(0)


def test_another_text_of_equal_length_is_refused(tokenizer):
    model = llama()
    inputs = tokenizer("the cat sat on a mat", return_tensors="pt")
    with regard.watch(model) as seen, torch.no_grad():
        model(**inputs)
    with pytest.raises(errors.OptionError, match="token 2 is 'dogs', the model was called with 'cat'"):
        seen.reading(tokenizer, "the dogs sat on a mat")
    other = inputs["input_ids"].clone()
    other[0, 6] = 5
    with pytest.raises(errors.OptionError, match="not what the model has read"):
        seen.reading(tokenizer, other)
    assert seen.reading(tokenizer, "the cat sat on a mat").unverified == ""


def test_the_tokens_that_the_model_was_called_with_are_enough(tokenizer):
    model, texts = llama(), ["the cat sat on a mat", "dogs ran"]
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with regard.watch(model) as seen, torch.no_grad():
        model(inputs["input_ids"], inputs["attention_mask"])
    for batch, text in enumerate(texts):
        assert [word.text for word in seen.reading(tokenizer, batch=batch).words] == ["[CLS]", *text.split()]
    with pytest.raises(errors.OptionError, match="not what the model has read"):
        seen.reading(tokenizer, inputs["input_ids"].flip(0), batch=0)
    prompt = tokenizer(texts[0], return_tensors="pt")
    with regard.watch(model) as seen, torch.no_grad():
        written = model.generate(**prompt, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert [token.id for token in seen.reading(tokenizer).tokens] == written[0, :-1].tolist()
    wrong = written.clone()
    wrong[0, -2] = (wrong[0, -2] + 1) % 16
    with pytest.raises(errors.OptionError, match="not what the model has read"):
        seen.reading(tokenizer, wrong)


@pytest.mark.parametrize("is_saved", [False, True])
def test_every_pass_knows_its_own_text(tokenizer, is_saved):
    model, texts = llama(), ["the cat sat on a mat", "the dogs sat on a mat"]
    with regard.watch(model, runs=None) as seen, torch.no_grad():
        for text in texts:
            model(**tokenizer(text, return_tensors="pt"))
    runs = (pickle.loads(pickle.dumps(seen)) if is_saved else seen).runs
    for run, text, other in zip(runs, texts, texts[::-1], strict=True):
        assert run.reading(tokenizer).text.endswith(text)
        assert run.reading(tokenizer, text).unverified == ""
        with pytest.raises(errors.OptionError, match="not what the model has read"):
            run.reading(tokenizer, other)
        with pytest.raises(errors.OutOfRange, match="batch 2"):
            run.reading(tokenizer, batch=2)


def test_the_text_of_vectors_is_marked_as_unverified(tokenizer):
    model, text = llama(), "the cat sat on a mat"
    vectors = model.get_input_embeddings()(tokenizer(text, return_tensors="pt")["input_ids"])
    with regard.watch(model) as seen, torch.no_grad():
        model(inputs_embeds=vectors)
    assert "not verified" in seen.reading(tokenizer, text).unverified
    with pytest.raises(errors.OptionError, match="was not called with token ids"):
        seen.reading(tokenizer)


def test_the_encoder_and_the_decoder_know_their_own_tokens(tokenizer):
    model, text = bart(), "the cat sat on a mat"
    inputs = tokenizer(text, return_tensors="pt")
    with regard.watch(model) as seen, torch.no_grad():
        model.generate(input_ids=inputs["input_ids"], max_new_tokens=3, min_new_tokens=3, num_beams=2)
    assert seen.reading(tokenizer, text).text == text
    with pytest.raises(errors.OptionError, match="not what the model has read"):
        seen.reading(tokenizer, "the cat sat on a dogs")
