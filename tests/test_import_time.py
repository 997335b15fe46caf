"""`import regard` stays light: it loads NumPy, itself, and small parts of the standard library."""

import json
import subprocess
import sys

HEAVY_STANDARD = {"asyncio", "concurrent", "http", "multiprocessing", "unittest", "xml", "sqlite3", "tkinter", "pydoc"}
LOADED = "import sys, json; before = set(sys.modules); import {}; print(json.dumps(sorted(set(sys.modules) - before)))"


def modules_loaded_by(statement: str) -> set[str]:
    """Modules that `import statement` adds to a fresh interpreter."""
    finished = subprocess.run(
        [sys.executable, "-c", LOADED.format(statement)], capture_output=True, text=True, check=True
    )
    return set(json.loads(finished.stdout))


def roots(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules}


def test_import_loads_nothing_heavy():
    assert not roots(modules_loaded_by("regard")) & {
        "torch", "transformers", "array_api_compat", "rich", "typer", "ml_dtypes", "hypothesis", "onnx",
    }  # fmt: skip


def test_import_adds_to_numpy_only_regard_and_light_standard_modules():
    added = modules_loaded_by("numpy, regard") - modules_loaded_by("numpy")
    # The build backend's finder for editable installs is not part of an installed Regard.
    strangers = roots(added) - {"regard", "numpy"} - sys.stdlib_module_names
    assert not {name for name in strangers if "editable" not in name}
    assert not roots(added) & HEAVY_STANDARD


def test_import_loads_neither_views_nor_the_command_line():
    assert not {name for name in modules_loaded_by("regard") if name.startswith(("regard.output", "regard.cli"))}
