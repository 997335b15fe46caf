"""The attention of a model of transformers while it runs: weights, statistics, and what a KV cache could drop."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import regard

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=8,
    num_key_value_heads=2, initializer_range=0.3, pad_token_id=0, eos_token_id=None,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()  # random weights, so that this runs anywhere: put your own model here
prompt = torch.randint(3, 99, (1, 12))
options = {"max_new_tokens": 8, "do_sample": False, "attention_mask": torch.ones_like(prompt)}

plain = model.generate(prompt, **options)
with regard.watch(model) as seen:
    written = model.generate(prompt, **options)
print(seen)
print("the same tokens as unwatched:", torch.equal(plain, written))

# One lazy matrix per layer, over the prompt and the generated tokens.
A = seen.layers[3].attention.select(batch=0, head=5)
print(A)
print("the last token attends most to tokens", A.top(3).index[-1].tolist())

# Statistics alone take O(n) memory per head; column sums say which keys are used least.
with regard.watch(model, keep=["entropy", "column_sums"]) as seen, torch.inference_mode():
    model(written)
received = seen.layers[3].column_sums()[0].mean(0)  # (key,), averaged over heads
print("keys that receive least:", sorted(received[:-4].topk(3, largest=False).indices.tolist()))
print(f"kept: {seen.memory:,} bytes")
