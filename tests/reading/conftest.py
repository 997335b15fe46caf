"""The real weights that tests of models have."""

from ..models.conftest import cache, minilm_path, smollm2_path

__all__ = ["cache", "minilm_path", "smollm2_path"]
