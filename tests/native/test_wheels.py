"""What `make wheels` does again and what it keeps."""

import importlib.util
import sys
from pathlib import Path


def test_a_wheel_is_built_again_only_when_sources_change_or_it_is_gone(tmp_path):
    spec = importlib.util.spec_from_file_location("build_wheels", Path(__file__).parents[2] / "native/build_wheels.py")
    wheels = sys.modules["build_wheels"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheels)
    out = tmp_path / "dist"
    built: list[int] = []
    out.mkdir()

    def build() -> Path:
        built.append(len(built))
        wheel = out / "regard.whl"
        wheel.write_text("")
        return wheel

    def run(digest: str) -> int:
        assert wheels.build_once(tmp_path / "stamp", digest, out, build) == out / "regard.whl"
        return len(built)

    assert run("first") == 1
    assert run("first") == 1
    assert run("second") == 2
    (out / "regard.whl").unlink()
    assert run("second") == 3
