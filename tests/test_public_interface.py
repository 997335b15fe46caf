"""The public interface: what the reference names exists, and every public name has an example that runs."""

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

import regard
from regard.cli.app import app
from regard.watch import Seen

ROOT = Path(__file__).parents[1]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
PACKAGES = {"regard": regard, "regard.masks": regard.masks, "regard.layers": regard.layers}
# The variables of the reference, and what they hold.
HELD = {
    "A": regard.Attention, "trace": regard.Trace, "layer": regard.layers.MultiHead, "model": regard.Model,
    "reading": regard.Reading, "seen": Seen,
}  # fmt: skip


def in_backticks(text: str = REFERENCE) -> str:
    return "\n".join(re.findall(r"`([^`\n]+)`", text))


def test_every_name_in_the_reference_is_importable_as_written():
    """By attributes alone, in a process that has imported nothing else; names that errors propose as well."""
    named = sorted({*re.findall(r"\bregard(?:\.\w+)+", in_backticks()), *regard._ELSEWHERE.values()})
    assert len(named) > 15
    program = "import regard\n" + "\n".join(f"assert {name} is not None" for name in named)
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_name_in_the_documentation_exists():
    """Modules are imported where an attribute alone does not lead to them."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    pages += [page for page in (ROOT / "docs").rglob("*.md") if page.name != "migration.md"]  # it has former names
    found = re.compile(r"(?<![\w/])regard(?:\.\w+)+(?![\w-])")
    named = {name for page in pages for name in found.findall(in_backticks(page.read_text(encoding="utf-8")))}
    assert len(named) > 40
    assert not [name for name in sorted(named - {"regard.wasm"}) if not leads_somewhere(name)]


def leads_somewhere(name: str) -> bool:
    value: object = regard
    for end, part in enumerate(name.split(".")[1:], 2):
        if not hasattr(value, part) and find_spec(".".join(name.split(".")[:end])):
            importlib.import_module(".".join(name.split(".")[:end]))
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def test_every_command_is_in_the_reference():
    def commands(group, name):
        for part, command in group.commands.items():
            inner = getattr(command, "commands", None)
            yield from commands(command, f"{name} {part}") if inner else [f"{name} {part}"]

    named = "\n" + in_backticks()
    missing = [name for name in commands(get_command(app), "regard") if f"\n{name}" not in named]
    assert not missing


def test_the_surface_is_small_and_complete():
    assert len(regard.__all__) == 13 and {*regard.__all__, "watch"} <= set(dir(regard))
    assert all(getattr(regard, name) is not None for name in dir(regard) if name != "training")
    assert dir(regard.heads) == sorted(regard.heads.__all__)
    with pytest.raises(AttributeError, match=r"it is regard\.masks\.documents"):
        _ = regard.documents  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'relatoins'"):
        _ = regard.heads.relatoins  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert regard.__version__ == project["version"]


@pytest.mark.parametrize("variable", HELD)
def test_every_attribute_in_the_reference_exists(variable):
    kind = HELD[variable]
    named = set(re.findall(rf"(?<![\w.]){variable}\.(\w+)", in_backticks()))
    assert named
    known = {*dir(kind), *inspect.signature(kind).parameters, *getattr(kind, "__dataclass_fields__", ())}
    assert not named - known


def public() -> dict[str, object]:
    """Functions, classes and the methods and properties of classes, by name."""
    found: dict[str, object] = {}
    for package, module in PACKAGES.items():
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.ismodule(thing) or name in ("Rest", "Visible"):  # what masks hand to engines
                continue
            found[f"{package}.{name}"] = thing
            if inspect.isclass(thing) and package == "regard":
                found |= {f"{package}.{name}.{method}": member for method, member in members(thing)}
    return found


def members(kind: type):
    """What a class itself defines and shows: no fields, no names that begin with an underscore."""
    for name, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property | cached_property)):
            yield name, plain


def test_every_public_name_has_an_example():
    """One of its own, or its use in the example of its class. pytest runs the examples of src/regard."""
    examples = {name: examples_in(thing) for name, thing in public().items()}
    assert len(examples) > 100
    owners = {name: name.rpartition(".") for name, example in examples.items() if not example}
    assert not [name for name, (owner, _, method) in owners.items() if f".{method}" not in examples.get(owner, "")]


def examples_in(thing: object) -> str:
    lines = (inspect.getdoc(thing) or "").splitlines()
    return "\n".join(line for line in lines if line.lstrip().startswith((">>> ", "... ")))
