"""What Python and the `tokenizers` library make of many lines, written for library.test.js."""

import json
import random
import re
import unicodedata
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.models import tokens
from regard.models.files import gguf_config
from regard.models.model import tokens_of
from regard.reading.words import words_of
from regard.training import task
from regard.training.checkpoint import tokeniser_of
from regard.training.tasks import TASKS

from .corpus import real

FAMILIES = ("smollm", "default", "llama-bpe", "qwen2")  # one per kind of pre-tokenisation in GGUF files


@dataclass(frozen=True)
class Case:
    """A tokeniser as Python has it, and the file or metadata from which JavaScript builds it."""

    name: str
    tokeniser: tokens.Tokeniser
    file: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


def of_file(name: str, engine: Tokenizer) -> Case:
    text = engine.to_str()
    return Case(name, tokens.of(Tokenizer.from_str(text), Path(name)), file=json.loads(text))


def of_metadata(name: str, metadata: dict[str, Any]) -> Case:
    kept = {key: value for key, value in metadata.items() if key.startswith("tokenizer.ggml.")}
    return Case(name, gguf_config.tokeniser(kept, Path(name)), metadata=kept)


def small_cases(folder: Path) -> list[Case]:
    """Small tokenisers that differ in every option that JavaScript reads."""
    return [*_word_pieces(), *_byte_pairs(), *_of_gguf(), *_of_tasks(folder)]


def _trained(engine: Tokenizer, trainer) -> Tokenizer:
    engine.train_from_iterator(real()[::7], trainer)
    return engine


def _word_pieces() -> list[Case]:
    base = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    base.normalizer, base.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    _trained(base, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False))
    vocabulary = base.get_vocab(with_added_tokens=False)
    cases = []
    for index in range(8):
        clean, chinese, lower = bool(index & 1), bool(index & 2), bool(index & 4)
        strip = (None, True, False)[index % 3]
        engine = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=10 + index))
        engine.normalizer = normalizers.BertNormalizer(clean, chinese, strip, lower)
        engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        engine.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
        engine.decoder = decoders.WordPiece(cleanup=index % 2 == 0)
        engine.add_special_tokens(special)
        added = [AddedToken("Été", normalized=True), AddedToken("the", single_word=True, rstrip=True), "do not"]
        engine.add_tokens(added)
        cases.append(of_file(f"word-piece-{index}", engine))
    return cases


def _byte_pairs() -> list[Case]:
    cases = []
    few = [letter for letter in pre_tokenizers.ByteLevel.alphabet() if ord(letter) % 3]
    for index, alphabet in enumerate([pre_tokenizers.ByteLevel.alphabet(), few, few, few]):
        base = Tokenizer(models.BPE())
        base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=index % 2 == 1)
        trainer = trainers.BpeTrainer(
            vocab_size=700, initial_alphabet=alphabet, limit_alphabet=180, show_progress=False
        )
        model = json.loads(_trained(base, trainer).to_str())["model"]
        vocabulary, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]
        vocabulary |= {"<unk>": len(vocabulary), "Ġattention": len(vocabulary) + 1, "Ġqqq": len(vocabulary) + 2}
        unknown = "<unk>" if index > 1 else None  # else the library drops what is not in the vocabulary
        engine = Tokenizer(
            models.BPE(vocabulary, merges[::-1], unk_token=unknown, fuse_unk=index == 3, ignore_merges=index == 0)
        )
        engine.normalizer = [None, normalizers.Lowercase()][index % 2]
        engine.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=False), base.pre_tokenizer] if index > 1 else [base.pre_tokenizer]
        )
        trim = processors.ByteLevel(trim_offsets=index != 2, add_prefix_space=index % 2 == 1)
        template = processors.TemplateProcessing("<s> $A </s> </s>", None, [("<s>", 3), ("</s>", 4)])
        engine.post_processor = processors.Sequence([trim, template]) if index else trim
        engine.decoder = decoders.ByteLevel()
        engine.add_special_tokens([AddedToken("<|im_", lstrip=True), AddedToken("<|im_start|>", rstrip=True)])
        engine.add_tokens([AddedToken("WORD", normalized=True, lstrip=True), AddedToken("é", normalized=False), "  "])
        cases.append(of_file(f"byte-pairs-{index}", engine))
    return cases


def _of_gguf() -> list[Case]:
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=800, initial_alphabet=alphabet, show_progress=False)
    model = json.loads(_trained(base, trainer).to_str())["model"]
    words = [*model["vocab"], "<|im_start|>", "<|im_end|>", "<|im_"]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.token_type": [1] * (len(words) - 3) + [3, 3, 4],
        "tokenizer.ggml.bos_token_id": len(words) - 3,
    }
    return [
        of_metadata(name, metadata | {"tokenizer.ggml.pre": name, "tokenizer.ggml.add_bos_token": name == "qwen2"})
        for name in FAMILIES
    ]


def _of_tasks(folder: Path) -> list[Case]:
    """What `regard train` writes, for every task."""
    text = folder / "text.txt"
    text.write_text("The kids left, so é and 漢😀\tall of them.\n" * 40, encoding="utf-8")
    cases = []
    for name in TASKS:
        made = task(name, path=text) if name == "text" else task(name)
        cases.append(of_file(f"task-{name}", Tokenizer.from_str(json.dumps(tokeniser_of(made)))))
    split = Tokenizer(models.WordLevel({"<unk>": 0, "the": 1, "é": 2}, unk_token="<unk>"))
    split.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    split.post_processor = processors.TemplateProcessing("$A <unk>", None, [("<unk>", 0)])
    split.decoder = decoders.Sequence([decoders.Fuse()])
    gpt2 = Tokenizer(models.WordLevel({"<unk>": 0, " the": 1, "<0x0A>": 2, "▁the": 3, "\n": 2}, unk_token="<unk>"))
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    gpt2.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    return [*cases, of_file("white-space", split), of_file("words", gpt2)]


def write_parts(folder: Path, lines: list[str]) -> None:
    """What each normalizer makes of every code point, and where each pre-tokeniser cuts every line."""
    letters = "\u0138".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    changes = [
        normalizers.Lowercase(),
        normalizers.BertNormalizer(),
        normalizers.BertNormalizer(strip_accents=True, lowercase=False),
        normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=False),
    ]
    gguf = [gguf_config._pre_tokeniser(name, tokenizers, Path("x")) for name in FAMILIES]
    cuts = [
        *gguf,
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.Whitespace(),
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
    ]
    texts = [tokens._without_surrogates(line) for line in lines]
    content = {
        "letters": letters,
        "normalizers": [[json.loads(change.__getstate__()), change.normalize_str(letters)] for change in changes],
        "pre_tokenizers": [
            [json.loads(cut.__getstate__()), [[span for _, span in cut.pre_tokenize_str(text)] for text in texts]]
            for cut in cuts
        ],
    }
    (folder / "parts.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def write_case(folder: Path, case: Case, lines: list[str], readable: int) -> None:
    """Ids and offsets of all lines as integers; for `readable` of them all that a reader needs."""
    made, size = case.tokeniser, case.tokeniser.size
    numbers = array("i")
    for first in range(0, len(lines), 4096):
        texts = [tokens._without_surrogates(line) for line in lines[first : first + 4096]]
        for encoding in made.engine.encode_batch(texts):
            starts, stops = zip(*encoding.offsets, strict=True) if len(encoding) else ((), ())
            numbers.extend([len(encoding), *encoding.ids, *starts, *stops])
    (folder / f"{case.name}.bin").write_bytes(numbers.tobytes())
    draw = random.Random(case.name)
    indices = sorted(draw.sample(range(len(lines)), min(readable, len(lines))))
    content = {
        "file": case.file,
        "metadata": case.metadata,
        "lines": len(lines),
        "size": size,
        "specials": sorted(made.specials),
        "pieces": [_piece(made, number) for number in range(size)],
        "readings": [{"line": index, **_reading(made, lines[index])} for index in indices],
        "spelled": [_spelled(made, [draw.randrange(size) for _ in range(20)]) for _ in range(100)],
        "beginnings": [_beginning(made, lines[index], draw) for index in indices[::8]],
    }
    (folder / f"{case.name}.json").write_text(json.dumps(content), encoding="utf-8")


def _reading(made: tokens.Tokeniser, text: str) -> dict[str, object]:
    encoded, plain = made.encode(text), made.encode(text, special=False)
    words = [[word.text, word.first, word.last, word.special] for word in words_of(tokens_of(encoded), text)]
    return {
        "assigned": all(unicodedata.category(letter) != "Cn" for letter in text),
        "encoded": vars(encoded),
        "plain": plain.ids,
        "words": words,
        "decoded": [made.decode(encoded.ids), made.decode(encoded.ids, special=True)],
    }


def _piece(made: tokens.Tokeniser, number: int) -> list[object]:
    token = made.token(number)
    return [token, made.number(token), *made.piece(number)]


def _spelled(made: tokens.Tokeniser, ids: list[int]) -> dict[str, object]:
    # Python's spans are wrong where bytes spell a surrogate, and it raises an IndexError where such bytes are the last.
    while re.search(rb"\xed[\xa0-\xbf]", b"".join(made._bytes(made.token(number), first=False) for number in ids)):
        ids.pop()
    text, encoded = made.spell(ids)
    return {"ids": ids, "text": text, "encoded": vars(encoded), "decoded": made.decode(ids)}


def _beginning(made: tokens.Tokeniser, text: str, draw: random.Random) -> list[object]:
    longest = draw.randint(16, 24)  # a single character may be that many tokens, then Python raises an IndexError
    return [text, longest, made.beginning(text, longest)]
