"""Modules that belong to no package: the scripts of docs/ and native/."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def module_of(path: Path, name: str | None = None) -> ModuleType:
    """The module of a file, run anew; by the name of the file if none is given.

    It stands in `sys.modules` before it runs, since dataclasses look their module up there.
    """
    spec = spec_from_file_location(name or path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
