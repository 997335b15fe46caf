"""Imports point one way: a module uses its own floor and those below."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "regard"

# From the ground up. A module is named by its first part: engines.torch_engine lives on the floor of engines.
FLOORS = (
    (
        "_core",
        "errors",
        "validate",
        "arrays",
        "tables",
        "examples",
        "atomic_file",
        "file_state",
        "input_file",
        "lock_file",
        "codec",
        "provenance",
        "notebook",
        "lazy_names",
        "version",
    ),
    ("masks", "biases"),
    ("engines",),
    ("attention",),
    ("layers",),
    ("trace",),
    ("reading", "teaching"),
    ("edits", "models", "watch", "transformers"),
    ("heads", "training", "attribution"),
    ("output", "viewer", "studio"),
    ("site", "slides"),
    ("cli",),
    ("__main__",),
)
FLOOR_OF = {name: height for height, names in enumerate(FLOORS) for name in names}

# Methods that hand over to a later floor, importing it in their body: (module, what it imports).
HAND_OVERS: set[tuple[str, str]] = {
    ("attention.attention", "trace"),
    ("layers.layer", "trace"),
    ("teaching.block", "output"),
    ("teaching.positions", "output"),
    ("teaching.scaled_scores", "output"),
    ("teaching.lookup", "models"),
    ("notebook", "output"),
    ("notebook", "viewer"),
    ("reading.reading", "viewer"),
    ("tables", "output"),
}

# The only ones that may import torch: all modules whose name begins so.
TORCH_MODULES = ("engines.torch", "watch", "transformers", "training")
FOR_TYPES_ONLY = {"attention.attention": "torch.Tensor"}  # behind `if TYPE_CHECKING`


@dataclass(frozen=True)
class Import:
    target: str  # dotted, absolute: regard.engines.native.forward or torch.nn
    line: int
    in_body: bool  # inside a function, so that it runs only when that is called


def imports_of(path: Path) -> tuple[Import, ...]:
    package = ".".join(["regard", *path.relative_to(SOURCE).parent.parts])
    return _imports_of(path.read_text(encoding="utf-8"), package)


@cache
def _imports_of(text: str, package: str) -> tuple[Import, ...]:
    def visit(node: ast.AST, in_body: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, in_body)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    parents = package.split(".")[: len(package.split(".")) - child.level + 1]
                    base = ".".join([*parents, base]).rstrip(".")
                for alias in child.names:
                    yield Import(f"{base}.{alias.name}", child.lineno, in_body)
            else:
                yield from visit(child, in_body or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    return tuple(visit(ast.parse(text), False))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def complaints(path: Path) -> Iterator[str]:
    module = module_name(path)
    for found in imports_of(path):
        where = f"{path.relative_to(SOURCE)}:{found.line} imports {found.target}"
        root, _, target = found.target.partition(".")
        if root == "torch" and not module.startswith(TORCH_MODULES) and FOR_TYPES_ONLY.get(module) != found.target:
            yield f"{where}: only {', '.join(TORCH_MODULES)} may"
        if root != "regard" or not module:  # regard/__init__.py gathers the public names from everywhere
            continue
        floor = FLOOR_OF[module.split(".")[0]]
        target_name = target.split(".")[0]
        if target_name not in FLOOR_OF:
            # `import regard` or `from regard import Attention`
            yield f"{where}: take it from the module that defines it"
        elif FLOOR_OF[target_name] > floor and not (found.in_body and (module, target_name) in HAND_OVERS):
            yield f"{where}: that is a later floor; if a method hands over to it, list it in HAND_OVERS"


PATHS = sorted(SOURCE.rglob("*.py"))

MOST_TWO_WAY = 1  # pairs of modules that import each other, as `Reading` and `Reader` do


def two_way_pairs() -> set[tuple[str, str]]:
    """Pairs of modules that import each other, imports in function bodies and for type checking included.

    A package's `__init__` that lists the names of its own modules is not counted.
    """
    names = {module_name(path): path for path in PATHS}
    uses: dict[str, set[str]] = {}
    for module, path in names.items():
        found = set()
        for one in imports_of(path):
            target = one.target.removeprefix("regard.") if one.target.startswith("regard.") else ""
            while target and target not in names:  # from regard.errors import ShapeError: the module is regard.errors
                target = target.rpartition(".")[0]
            if target and target != module:
                found.add(_definer(one.target, target, names))
        uses[module] = found
    return {
        (one, other)
        for one, targets in uses.items()
        for other in targets
        if one < other and one in uses.get(other, ()) and not other.startswith(f"{one}.")
    }


def _definer(target: str, module: str, names: dict[str, Path]) -> str:
    """The module that a name comes from where a package's `__init__` passes it on."""
    path = names[module]
    if path.name != "__init__.py":
        return module
    name = target.rpartition(".")[2]
    for one in imports_of(path):
        if one.target.rpartition(".")[2] == name and one.target.startswith("regard."):
            source = one.target.removeprefix("regard.").rpartition(".")[0]
            return source if source in names else module
    return module


def test_few_modules_import_each_other():
    pairs = two_way_pairs()
    assert len(pairs) <= MOST_TWO_WAY, "\n".join(f"{one} ⇄ {other}" for one, other in sorted(pairs))


def test_imports_point_down():
    modules = {module_name(path) for path in PATHS} - {""}
    assert not {module for module in modules if module.split(".")[0] not in FLOOR_OF}, "give these a floor in FLOORS"
    assert not [complaint for path in PATHS for complaint in complaints(path)]


def test_every_listed_hand_over_is_there():
    used = {
        (module_name(path), found.target.split(".")[1])
        for path in PATHS
        for found in imports_of(path)
        if found.in_body and found.target.startswith("regard.")
    }
    assert used >= HAND_OVERS


def test_a_wrong_direction_is_noticed(tmp_path, monkeypatch):
    """The test of the test: an import upwards, one of torch, and one through the package itself."""
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    wrong = tmp_path / "masks.py"
    wrong.write_text("from regard.attention import Attention\nimport torch\nfrom regard import cli, Attention\n")
    assert len(list(complaints(wrong))) == 4
    wrong.write_text("from regard.errors import ShapeError\nfrom . import errors\nimport numpy\n")
    assert not list(complaints(wrong))


def test_no_module_shares_its_name_with_a_public_function():
    """A lazily loaded function turns into the module of its name once that is imported; `regard.watch`, a package that
    is itself callable, is not in `__all__`.
    """
    import regard

    modules = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert not modules & {name for name in regard.__all__ if callable(getattr(regard, name))}
