r"""The viewer's JavaScript modules bundled into one script, for hosts where imports do not work; and its kernels.

Pages opened from disk and the Blobs that notebooks load cannot import other files. Each module becomes a function that
returns its exports, dependencies first:

>>> modules = {
...     "b.js": "export const two = 2;\n",
...     "a.js": 'import { two } from "./b.js";\nexport const four = two * two;\n',
... }
>>> print(join_modules("a.js", modules.__getitem__))
const module_1 = (() => {
const two = 2;
return { two };
})();
const module_2 = (() => {
const { two } = module_1;
const four = two * two;
return { four };
})();
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath

from regard.errors import RegardError

_NAME = r"[A-Za-z_$][\w$]*"
_IMPORT = re.compile(r"""^import\s*\{([^}]*)\}\s*from\s*["']([^"']+)["'];?[ \t]*$""", re.MULTILINE)
_EXPORT = re.compile(
    rf"^export\s+(?:default\b|((?:(?:async\s+)?function\s*\*?|const|let|class)\s+({_NAME})))", re.MULTILINE
)
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)", re.DOTALL | re.MULTILINE)
_LEFT = re.compile(r"^[ \t]*(?:import\b(?!\s*\()|export\b).*$", re.MULTILINE)
DEFAULT = "default_"


class BundleError(RegardError, ValueError):
    """Modules that cannot be bundled."""


@dataclass(frozen=True)
class _Module:
    path: str
    body: str  # without its imports, the word `export` and the comments at line starts
    imports: dict[str, list[str]]  # the names taken from each module
    exports: list[str]


def join_modules(entry: str, read: Callable[[str], str], *, default: bool = False) -> str:
    """The entry and its dependencies as one script, which exports nothing, or what the entry exports by default."""
    order: dict[str, _Module] = {}
    _collect(entry, read, order, ())
    numbered = {path: f"module_{number}" for number, path in enumerate(order, 1)}
    pieces = [_scoped(module, order, numbered) for module in order.values()]
    if default:
        if DEFAULT not in order[entry].exports:
            raise BundleError(f"{entry} does not export default.")
        pieces.append(f"export default {numbered[entry]}.{DEFAULT};")
    return "\n".join(pieces)


@lru_cache(maxsize=8)
def script(entry: str, *, default: bool = False) -> str:
    """One of the viewer's modules with its dependencies."""
    return join_modules(entry, web_file, default=default)


@lru_cache(maxsize=1)
def wasm() -> bytes:
    """The kernels that the page computes with, gzipped: the page inflates them."""
    module = _web().joinpath("engine", "regard.wasm").read_bytes()
    return gzip.compress(module, mtime=0)  # the same bytes every time


@lru_cache(maxsize=8)
def style() -> str:
    """The viewer's style sheets as one."""
    sheets = sorted(_sheets(_web()), key=lambda sheet: sheet.name)
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def _sheets(folder: Traversable) -> Iterator[Traversable]:
    for part in folder.iterdir():
        if part.is_dir():
            yield from _sheets(part)
        elif part.name.endswith(".css"):
            yield part


def web_file(path: str) -> str:
    """The text of one of the viewer's files, by its path below `web/`."""
    return _web().joinpath(*path.split("/")).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _web() -> Traversable:
    return files("regard").joinpath("web")


def _collect(path: str, read: Callable[[str], str], order: dict[str, _Module], above: tuple[str, ...]) -> None:
    """Depth first: dependencies come before the module."""
    if path in order:
        return
    if path in above:
        circle = " → ".join([*above[above.index(path) :], path])
        raise BundleError(f"Modules import each other in a cycle: {circle}.")
    try:
        text = read(path)
    except (OSError, KeyError):
        importer = f", which {above[-1]} imports" if above else ""
        raise BundleError(f"There is no module {path}{importer}.") from None
    module = _parse(path, text)
    for needed in module.imports:
        _collect(needed, read, order, (*above, path))
    order[path] = module


def _parse(path: str, text: str) -> _Module:
    """Imports and exports, and what is left of the text without them."""
    text = _without_comments(text)
    imports = {
        _source(path, match[2]): [name.strip() for name in match[1].split(",") if name.strip()]
        for match in _IMPORT.finditer(text)
    }
    exports = [match[2] or DEFAULT for match in _EXPORT.finditer(text)]
    text = _EXPORT.sub(lambda match: match[1] or f"const {DEFAULT} =", _IMPORT.sub("", text))
    left = _LEFT.search(text)
    strange = [name for names in imports.values() for name in names if not re.fullmatch(_NAME, name)]
    if left is not None or strange:
        statement = strange[0] if left is None else left[0].strip()
        raise BundleError(f"{path} says {statement!r}; only named imports and exports at line starts can be bundled.")
    return _Module(path, text.strip("\n"), imports, exports)


def _source(path: str, written: str) -> str:
    """The path of an imported module."""
    if not written.startswith("."):
        raise BundleError(f"{path} imports {written!r}; only relative paths can be bundled.")
    resolved = normpath(join(dirname(path), written))
    if resolved.startswith(".."):
        raise BundleError(f"{path} imports {written!r}, which is outside the viewer's files.")
    return resolved


def _without_comments(text: str) -> str:
    """The text without the comments at line starts, a fifth of what is sent; template literals stay as they are."""
    bare = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    return _COMMENT.sub(lambda match: match[0] if bare.count("`", 0, match.start()) % 2 else "", text)


def _scoped(module: _Module, order: dict[str, _Module], numbered: dict[str, str]) -> str:
    """The module as an immediately invoked function."""
    lines = [f"const {numbered[module.path]} = (() => {{"]
    for needed, names in module.imports.items():
        if missing := set(names) - set(order[needed].exports):
            raise BundleError(f"{module.path} imports {min(missing)} from {needed}, which does not export it.")
        lines.append(f"const {{ {', '.join(names)} }} = {numbered[needed]};")
    return "\n".join([*lines, module.body, f"return {{ {', '.join(module.exports)} }};", "})();"])
