"""Fixtures with real weights, shared with the tests of models."""

from ..models.conftest import cache, minilm_path, smollm2_path

__all__ = ["cache", "minilm_path", "smollm2_path"]
