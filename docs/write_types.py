"""Write src/regard/web/description.d.ts: the types of viewer/description.py, for the page's JavaScript."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.viewer import description

TARGET = Path(__file__).parent.parent / "src" / "regard" / "web" / "description.d.ts"
NAMES = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
HEADER = "// Written by docs/write_types.py from viewer/description.py: `make types`.\n"


def write() -> str:
    """The text of the file."""
    aliases = [f"export type {name} = {_written(getattr(description, name))};\n" for name in ("Kind", "Measure")]
    found = vars(description).values()
    dicts = [one for one in found if typing.is_typeddict(one) and one.__module__ == description.__name__]
    return "\n".join([HEADER, *aliases, *map(_interface, dicts)])


def _interface(of: Any) -> str:
    hints = typing.get_type_hints(of, include_extras=True)
    source = inspect.getsource(of)
    lines = [f"/** {' '.join((of.__doc__ or '').split())} */", f"export interface {of.__name__} {{"]
    for name, hint in hints.items():
        mark = "" if name in of.__required_keys__ else "?"
        if typing.get_origin(hint) is typing.NotRequired:
            (hint,) = typing.get_args(hint)
        said = re.search(rf"^    {name}: .*  # (.*)$", source, flags=re.MULTILINE)
        lines.append(f"  {name}{mark}: {_written(hint)};{f' // {said[1]}' if said else ''}")
    return "\n".join([*lines, "}\n"])


def _written(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in NAMES:
        return NAMES[hint]
    if typing.is_typeddict(hint):
        return str(hint.__name__)
    if origin is typing.Literal:
        return " | ".join(f'"{part}"' for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_written, parts))
    if origin is tuple:
        return f"[{', '.join(map(_written, parts))}]"
    if origin in (list, Sequence):
        inner = _written(parts[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is Mapping:
        return f"Record<string, {_written(parts[1])}>"
    raise TypeError(f"no JavaScript type for {hint}")


if __name__ == "__main__":
    TARGET.write_text(write(), encoding="utf-8")
