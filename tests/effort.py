"""How much a property test tries: all of it in `make test-all`, a part of it in `make test`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

THOROUGH = bool(os.environ.get("REGARD_TEST_ALL"))


def examples(most: int, **options: Any) -> settings:
    """As many examples as a test is worth, half of them where time is short."""
    return settings(max_examples=most if THOROUGH else max(10, most // 2), **options)
