"""Names of a package that are imported when they are first used, so that a mask does not wait for PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, Sequence[str]],
    modules: Sequence[str] = (),
    fixes: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    homes     the public names, by the module of the package that defines them
    modules   the modules of the package that users import from
    fixes     where a name is that people look for here

    >>> find, names = lazy_names("regard", {"masks": ["causal"]}, ["tables"])
    >>> names(), find("tables").__name__, find("causal").__name__
    (['causal', 'tables'], 'regard.tables', 'causal')
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    names = sorted({*home_of, *modules})

    def find(name: str) -> Any:
        if name in home_of:
            value = getattr(import_module(f"{package}.{home_of[name]}"), name)
            setattr(sys.modules[package], name, value)  # found at once the next time
            return value
        if name in modules:
            return import_module(f"{package}.{name}")
        fix = f": it is {fixes[name]}" if fixes and name in fixes else ""
        raise AttributeError(f"module {package!r} has no attribute {name!r}{fix}")

    return find, lambda: names
