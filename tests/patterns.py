"""Regular expressions that have to match."""

import re
from typing import AnyStr


def search(pattern: AnyStr, text: AnyStr) -> re.Match[AnyStr]:
    """As `re.search`; the test fails where there is no match."""
    match = re.search(pattern, text)
    assert match is not None, f"{pattern!r} does not match {text[:300]!r}"
    return match
