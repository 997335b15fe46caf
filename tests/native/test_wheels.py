"""What `make wheels` does again and what it keeps."""

from pathlib import Path

import pytest

from ..modules import module_of


@pytest.fixture(scope="module")
def wheels():
    """native/build_wheels.py"""
    return module_of(Path(__file__).parents[2] / "native/build_wheels.py")


@pytest.mark.parametrize(
    ("tag", "found", "libraries", "right"),
    [
        ("manylinux_2_17_x86_64", "manylinux_2_17_x86_64", [], True),
        ("manylinux_2_17_x86_64", "manylinux_2_34_x86_64", [], False),  # a newer glibc than the name says
        ("musllinux_1_2_x86_64", "linux_x86_64", ["libc.so"], True),
        ("musllinux_1_2_x86_64", "linux_x86_64", ["libc.so", "libstdc++.so.6"], False),
        ("manylinux_2_17_x86_64", "linux_x86_64", ["libc.so"], False),
    ],
)
def test_a_wheel_that_needs_more_than_its_tag_promises_is_refused(wheels, tag, found, libraries, right):
    symbols = tag if tag.startswith("musl") else found
    audit = {"overall_tag": found, "sym_tag": symbols, "external_libs": dict.fromkeys(libraries)}
    assert wheels.fits(audit, tag) == right


def test_a_wheel_is_built_again_only_when_sources_change_or_it_is_gone(wheels, tmp_path: Path, monkeypatch):
    out = tmp_path / "dist"
    built: list[int] = []
    sources = "first"
    monkeypatch.setattr(wheels, "digest_sources", lambda: sources)
    out.mkdir()

    def build() -> Path:
        built.append(len(built))
        wheel = out / "regard.whl"
        wheel.write_text("")
        return wheel

    def run() -> int:
        assert wheels.build_once(tmp_path / "stamp", out, build) == out / "regard.whl"
        return len(built)

    assert run() == 1
    assert run() == 1
    sources = "second"
    assert run() == 2
    (out / "regard.whl").unlink()
    assert run() == 3


def test_a_wheel_of_sources_that_change_meanwhile_is_not_kept(wheels, tmp_path: Path, monkeypatch):
    digests = iter(["before", "after"])
    monkeypatch.setattr(wheels, "digest_sources", lambda: next(digests))
    wheel = tmp_path / "regard.whl"

    def build() -> Path:
        wheel.write_text("")
        return wheel

    with pytest.raises(SystemExit, match="build again"):
        wheels.build_once(tmp_path / "stamp", tmp_path, build)
    assert not wheel.exists()
