"""The public interface: what the reference names exists, and every public name has an example that runs."""

import inspect
import re
import subprocess
import sys
import tomllib
from functools import cached_property
from pathlib import Path

import pytest

import regard
from regard.watch import Seen

REFERENCE = (Path(__file__).parents[1] / "docs" / "reference.md").read_text(encoding="utf-8")
PACKAGES = {"regard": regard, "regard.masks": regard.masks, "regard.layers": regard.layers}
# The variables of the reference, and what they hold.
HELD = {
    "A": regard.Attention, "trace": regard.Trace, "layer": regard.layers.MultiHead, "model": regard.Model,
    "reading": regard.Reading, "seen": Seen,
}  # fmt: skip


def in_backticks() -> str:
    return "\n".join(re.findall(r"`([^`\n]+)`", REFERENCE))


def test_every_name_in_the_reference_is_importable_as_written():
    """By attributes alone, in a process that has imported nothing else."""
    named = sorted(set(re.findall(r"\bregard(?:\.\w+)+", in_backticks())))
    assert len(named) > 15
    program = "import regard\n" + "\n".join(f"assert {name} is not None" for name in named)
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_surface_is_small_and_complete():
    assert len(regard.__all__) == 13 and {*regard.__all__, "watch"} <= set(dir(regard))
    assert all(getattr(regard, name) is not None for name in dir(regard) if name != "training")
    assert dir(regard.heads) == sorted(regard.heads.__all__)
    with pytest.raises(AttributeError, match=r"it is regard\.masks\.documents"):
        _ = regard.documents  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'relatoins'"):
        _ = regard.heads.relatoins  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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
