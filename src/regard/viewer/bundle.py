r"""The viewer's JavaScript modules bundled into one script, for hosts where imports do not work; and its kernels.

Pages opened from disk and the Blobs that notebooks load cannot import other files. Each module becomes a function that
returns its exports, dependencies first:

>>> modules = {
...     "b.js": "export const two = 2;\n",
...     "a.js": 'import { two } from "./b.js";\nexport const four = two * two;\n',
... }
>>> print(join_modules("a.js", modules.__getitem__, exported=("four",)))
const module_1 = (() => {
const two = 2;
return { two };
})();
const module_2 = (() => {
const { two } = module_1;
const four = two * two;
return { four };
})();
export const four = module_2.four;
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath

from regard.errors import RegardError

_NAME = r"[A-Za-z_$][\w$]*"
_IMPORT = re.compile(r"""^import\s*\{([^}]*)\}\s*from\s*["']([^"']+)["'];?[ \t]*$""", re.MULTILINE)
_DECLARED = re.compile(
    rf"^export\s+((?:async\s+)?function\s*\*?\s*({_NAME})|(?:const|let|class)\s+({_NAME}))", re.MULTILINE
)
_LISTED = re.compile(r"^export\s*\{([^}]*)\};?[ \t]*$", re.MULTILINE)
_DEFAULT = re.compile(
    rf"^export\s+default\s+(?:((?:async\s+)?(?:function|class)\s+({_NAME}))|({_NAME});?[ \t]*$|)", re.MULTILINE
)
_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)", re.DOTALL | re.MULTILINE)
_LEFT = re.compile(r"^[ \t]*(?:import\b(?!\s*\()|export\b).*$", re.MULTILINE)
_PART = re.compile(rf"^({_NAME})(?:\s+as\s+({_NAME}))?$")
DEFAULT = "default_"


class BundleError(RegardError, ValueError):
    """Modules that cannot be bundled."""


@dataclass(frozen=True)
class _Module:
    path: str
    body: str  # without its imports and the word `export`
    imports: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # a module, and (its name, our name) of each import
    exports: tuple[tuple[str, str], ...]  # (exported name, local name)


def join_modules(entry: str, read: Callable[[str], str], exported: Sequence[str] = ()) -> str:
    """The entry and its dependencies as one script, which exports only the names in `exported`."""
    order: dict[str, _Module] = {}
    _collect(entry, read, order, ())
    module_names = {path: f"module_{number}" for number, path in enumerate(order, 1)}
    pieces = [_scoped(module, order, module_names) for module in order.values()]
    public = {outside for outside, _ in order[entry].exports}
    for name in exported:
        local_name = DEFAULT if name == "default" else name
        if local_name not in public:
            raise BundleError(f"{entry} does not export {name}.")
        source = f"{module_names[entry]}.{local_name}"
        pieces.append(f"export default {source};" if name == "default" else f"export const {name} = {source};")
    return "\n".join(pieces)


@lru_cache(maxsize=8)
def script(entry: str, exported: tuple[str, ...] = ()) -> str:
    """One of the viewer's modules with its dependencies."""
    return join_modules(entry, web_file, exported)


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
    for needed, _ in module.imports:
        _collect(needed, read, order, (*above, path))
    order[path] = module


def _parse(path: str, text: str) -> _Module:
    """Parse a module. Edits are located with comments blanked out and applied from the end of the text."""
    bare = _blank_comments(text)
    imports: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    exports: list[tuple[str, str]] = []
    edits: list[tuple[int, int, str]] = []  # start, stop, replacement
    for match in _IMPORT.finditer(bare):
        imports.append((_source(path, match[2]), _parts(path, match[1])))
        edits.append((*match.span(), ""))
    for match in _DECLARED.finditer(bare):
        name = match[2] or match[3]
        exports.append((name, name))
        edits.append((match.start(), match.start(1), ""))
    for match in _LISTED.finditer(bare):
        exports += [(ours, theirs) for theirs, ours in _parts(path, match[1])]
        edits.append((*match.span(), ""))
    if (default := _DEFAULT.search(bare)) is not None:
        exports.append((DEFAULT, default[2] or default[3] or DEFAULT))
        named = default[1] or default[3]
        edits.append(
            (default.start(), default.start(1) if default[1] else default.end(), "" if named else f"const {DEFAULT} = ")
        )
    left = _LEFT.search(_edit(bare, edits))
    if left is not None:
        statement = left[0].strip()
        raise BundleError(f"{path} says {statement!r}; only named imports and exports at line starts can be bundled.")
    return _Module(path, _without_comments(_edit(text, edits)), tuple(imports), tuple(exports))


def _source(path: str, given: str) -> str:
    """The path of an imported module."""
    if not given.startswith("."):
        raise BundleError(f"{path} imports {given!r}; only relative paths can be bundled.")
    resolved = normpath(join(dirname(path), given))
    if resolved.startswith(".."):
        raise BundleError(f"{path} imports {given!r}, which is outside the viewer's files.")
    return resolved


def _edit(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, stop, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[stop:]
    return text


def _blank_comments(text: str) -> str:
    """The text with comments replaced by spaces of equal length; comments after code are left alone."""
    return _COMMENT.sub(lambda found: "\n".join(" " * len(line) for line in found[0].split("\n")), text)


def _without_comments(text: str) -> str:
    """The text without the comments at line starts, a fifth of what is sent; template literals stay as they are."""
    bare = _blank_comments(text)

    def kept(found: re.Match[str]) -> str:
        return found[0] if bare.count("`", 0, found.start()) % 2 else ""

    return _COMMENT.sub(kept, text).strip("\n")


def _parts(path: str, listed: str) -> tuple[tuple[str, str], ...]:
    """`a, b as c` → (("a", "a"), ("b", "c"))."""
    imports = []
    for part in filter(None, (part.strip() for part in _blank_comments(listed).split(","))):
        match = _PART.match(part)
        if match is None:
            raise BundleError(f"{path} lists {part!r} among its imports or exports; expected `a` or `a as b`.")
        imports.append((match[1], match[2] or match[1]))
    return tuple(imports)


def _scoped(module: _Module, order: dict[str, _Module], places: dict[str, str]) -> str:
    """The module as an immediately invoked function."""
    lines = []
    for needed, names in module.imports:
        exported = {outside for outside, _ in order[needed].exports}
        for name, _ in names:
            if name not in exported:
                raise BundleError(f"{module.path} imports {name} from {needed}, which does not export it.")
        bound = ", ".join(name if name == ours else f"{name}: {ours}" for name, ours in names)
        lines.append(f"const {{ {bound} }} = {places[needed]};")
    returned = ", ".join(outside if outside == inside else f"{outside}: {inside}" for outside, inside in module.exports)
    start, end = f"const {places[module.path]} = (() => {{", [f"return {{ {returned} }};", "})();"]
    return "\n".join([start, *lines, module.body, *end])
