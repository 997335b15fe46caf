"""Fixtures shared with the tests of heads: tiny models of two kinds that Regard and transformers both open."""

from ..heads.conftest import tiny

__all__ = ["tiny"]
