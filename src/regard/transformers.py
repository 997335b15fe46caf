"""Importing this module makes Regard's engine an attention implementation of transformers, named "regard".

>>> import regard.transformers
>>> from transformers import LlamaConfig, LlamaModel
>>> config = LlamaConfig(vocab_size=9, hidden_size=16, intermediate_size=8, num_hidden_layers=2, num_attention_heads=4)
>>> model = LlamaModel._from_config(config, attn_implementation="regard")
>>> model.config._attn_implementation
'regard'

It computes what "sdpa" computes, on the CPU by the native engine: masks stay intervals, with O(n) memory for padded,
sliding and packed batches. Dropout is left to PyTorch, and so is everything inside torch.compile and torch.func.
"""

from regard.errors import missing_package

try:
    import transformers
except ImportError:
    raise missing_package("regard.transformers", "transformers") from None

from regard.watch.interface import register

__all__ = ["register"]

register()
del transformers
