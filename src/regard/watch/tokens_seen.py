"""`TokensSeen`: the token ids that a watched model was called with, so that a reading is of the text that was read."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

NAMES = ("input_ids", "decoder_input_ids")


class ReadText(NamedTuple):
    """Token ids from the start of a text on; passes that continue a KV cache add theirs."""

    ids: Tensor  # (batch, token)
    prompt: int  # tokens of the pass that began the text


Texts = dict[tuple[int, str], ReadText]  # by module and argument


@dataclass
class TokensSeen(threading.local):
    """The texts that the models of this thread read last."""

    texts: Texts = field(default_factory=dict)

    def see(self, module: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """A call of the model, or of a model inside it."""
        cache = options.get("past_key_values")
        length = getattr(cache, "get_seq_length", None)
        start = int(length()) if callable(length) else 0
        inputs = {name: options.get(name) for name in NAMES}
        if inputs["input_ids"] is None and args:
            inputs["input_ids"] = args[0]
        for name, ids in inputs.items():
            of_encoder = inputs["decoder_input_ids"] is not None and name == "input_ids"
            self._add((id(module), name), ids, 0 if of_encoder else start)

    def _add(self, key: tuple[int, str], ids: Any, start: int) -> None:
        before = self.texts.pop(key, None)
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.is_floating_point():
            return
        ids = ids.detach()
        if not start:
            self.texts[key] = ReadText(ids.clone(), int(ids.shape[1]))
        elif before is not None and before.ids.shape[0] == ids.shape[0] and before.ids.shape[1] >= start:
            self.texts[key] = ReadText(torch.cat([before.ids[:, :start], ids], 1), before.prompt)


def sequences(texts: Mapping[Any, ReadText], tokens: int, batch: int) -> list[list[int]]:
    """What was seen of so many tokens in one sequence of the batch, as far as that is known.

    Beam search exchanges the sequences of a batch, so that of several only the prompt is known.
    """
    ids_of_texts: list[list[int]] = []
    for ids, prompt in texts.values():
        if ids.shape[1] == tokens and batch < ids.shape[0]:
            count = tokens if ids.shape[0] == 1 else min(prompt, tokens)
            ids_of_texts.append([int(number) for number in ids[batch, :count]])
    return ids_of_texts
