"""The tokeniser of a GGUF file, which carries vocabulary and merges in its metadata, built with `tokenizers`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import unsupported
from regard.models import tokens
from regard.models.errors import broken

# How text is cut before pairs are merged, by the name in the metadata. Contractions, a word with the blank or sign
# before it, digits, signs, blanks: the families differ in how many digits stay together.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
CUTS = {"llama-bpe": "{1,3}", "llama3": "{1,3}", "llama-v3": "{1,3}", "qwen2": ""}
DIGITS_ALONE = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone")
BYTE_LEVEL = ("gpt-2", "gpt2", "phi-2", "default")
CONTROL, USER_DEFINED = 3, 4


def build(metadata: Mapping[str, Any], path: Path) -> tokens.Tokeniser:
    """The byte-level BPE that the metadata describes."""
    library = tokens.library()
    model = metadata.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise unsupported(
            f"The tokeniser {str(model)[:40]!r} of {path}",
            "Byte-level BPE is read (tokenizer.ggml.model gpt2); or use the folder with tokenizer.json.",
        )
    vocabulary = {token: number for number, token in enumerate(_strings(metadata, "tokens", path))}
    merges = [tuple(merge.split(" ")) for merge in _strings(metadata, "merges", path)]
    if wrong := next((merge for merge in merges if len(merge) != 2), None):
        raise broken(path, f"{' '.join(wrong)[:60]!r} among tokenizer.ggml.merges does not join two tokens")
    with tokens.trusted(path):
        engine = library.Tokenizer(library.models.BPE(vocabulary, merges))
    engine.pre_tokenizer = _cutting(metadata.get("tokenizer.ggml.pre", "default"), library, path)
    engine.decoder = library.decoders.ByteLevel()
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    named = list(vocabulary)
    if not isinstance(kinds, list) or len(kinds) > len(named):
        raise broken(path, "its tokenizer.ggml.token_type is no list with one entry a token")
    engine.add_special_tokens([_added(library, named[n], True) for n, kind in enumerate(kinds) if kind == CONTROL])
    engine.add_tokens([_added(library, named[n], False) for n, kind in enumerate(kinds) if kind == USER_DEFINED])
    if metadata.get("tokenizer.ggml.add_bos_token", False):
        engine.post_processor = _with_first(metadata.get("tokenizer.ggml.bos_token_id"), named, library, path)
    return tokens.of(engine, path)


def _strings(metadata: Mapping[str, Any], name: str, path: Path) -> list[str]:
    found = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found) or not found:
        raise broken(path, f"its metadata has no tokenizer.ggml.{name}, a list of strings")
    if name == "tokens" and len(set(found)) < len(found):
        raise broken(path, "a token comes twice in its tokenizer.ggml.tokens")
    return found


def _cutting(name: Any, library: Any, path: Path) -> Any:
    ways = library.pre_tokenizers
    if name in DIGITS_ALONE:
        return ways.Sequence([ways.Digits(individual_digits=True), ways.ByteLevel(add_prefix_space=False)])
    if name in BYTE_LEVEL:
        return ways.ByteLevel(add_prefix_space=False)
    if name in CUTS:
        pattern = library.Regex(_WORDS.replace("{DIGITS}", CUTS[name]))
        cut = ways.Split(pattern, behavior="isolated")
        return ways.Sequence([cut, ways.ByteLevel(add_prefix_space=False, use_regex=False)])
    known = ", ".join([*DIGITS_ALONE, *BYTE_LEVEL, *CUTS])
    raise unsupported(f"The way {str(name)[:40]!r} of cutting text in {path}", f"Known are {known}.")


def _added(library: Any, token: str, special: bool) -> Any:
    return library.AddedToken(token, special=special, normalized=False)


def _with_first(number: Any, named: list[str], library: Any, path: Path) -> Any:
    if type(number) is not int or not 0 <= number < len(named):
        raise broken(path, f"its tokenizer.ggml.bos_token_id is {str(number)[:40]}, and there are {len(named)} tokens")
    first = named[number]
    return library.processors.TemplateProcessing(
        single=[first, "$A"], pair=[first, "$A", "$B:1"], special_tokens=[(first, number)]
    )
