"""Regard and the machine's limit with AVX2, as on processors that have no AVX-512."""

from __future__ import annotations

import os

os.environ["REGARD_ISA"] = "avx2"  # read when Regard is imported, by the two modules below

from peers.limit import prepare as limit
from peers.regard_numpy import prepare

__all__ = ["limit", "prepare"]
