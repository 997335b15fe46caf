"""How many examples a property test draws: half in `make test`, all in `make test-all`, more in `make fuzz`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

THOROUGH = bool(os.environ.get("REGARD_TEST_ALL"))
FUZZING = bool(os.environ.get("REGARD_FUZZ"))


def examples(most: int, **options: Any) -> settings:
    """Settings that draw `most` examples in `make test-all`, half of that in `make test`, thrice in `make fuzz`."""
    count = 3 * most if FUZZING else most if THOROUGH else max(10, most // 2)
    return settings(max_examples=count, **options)
