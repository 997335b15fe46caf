"""Builds the wheels that Linux can build: python native/build_wheels.py dist. `make wheels` installs what it needs.

Zig (the package ziglang) compiles for both processors and both C libraries, for glibc as old as 2.17 (2012), and links
its own libc++ into the module. Python's headers are the same on every 64-bit Linux, so the interpreters at hand serve
for all targets: 3.11 has wheels of its own, one wheel for the stable ABI of 3.12 serves all later versions.
A build that was stopped goes on where it was: what is compiled is kept in build/wheels, and a wheel whose sources have
not changed since is kept.
Wheels for macOS and Windows are built by .github/workflows/release.yml.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "wheels"
BUILD_TOOLS = ("scikit-build-core", "nanobind")
PURE = "py3-none-any"
SOURCES = (
    "CMakeLists.txt",
    "LICENSE*",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
    "docs/**/*",
    "native/*",
    "src/**/*",
)


@dataclass(frozen=True)
class Target:
    """A platform to build for."""

    tag: str  # of the wheel, as auditwheel must find it
    zig: str  # of the compiler
    suffix: str  # in the names of extension modules for one version of Python


LINUX = (
    Target("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17", "x86_64-linux-gnu"),
    Target("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", "aarch64-linux-gnu"),
    Target("musllinux_1_2_x86_64", "x86_64-linux-musl", "x86_64-linux-musl"),
    Target("musllinux_1_2_aarch64", "aarch64-linux-musl", "aarch64-linux-musl"),
)


def compiler(target: str, folder: Path = ROOT / "build" / "zig") -> tuple[str, ...]:
    """Options of CMake that compile with Zig for a target, by scripts in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    # The module is stripped. If all that is linked before it is stripped too, Zig compiles its libc++ once, not twice.
    strip = " -s" if "linux" in target else ""
    options = []
    for variable, program in (
        ("CMAKE_CXX_COMPILER", f"c++ -target {target}{strip}"), ("CMAKE_AR", "ar"), ("CMAKE_RANLIB", "ranlib"),
    ):  # fmt: skip
        script = folder / f"{program.split()[0]}-{target}"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {program} "$@"\n')
        script.chmod(0o755)
        options.append(f"-D{variable}={script}")
    return tuple(options)


def interpreters() -> dict[str, Path]:
    """Python 3.11 and the oldest later version at hand, by "311" and the like: each builds the wheels of its ABI."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [Path(sys.executable), *(versions.glob("3.1[1-9].*/bin/python"))]
    candidates += [Path(path) for minor in range(11, 20) if (path := shutil.which(f"python3.{minor}"))]
    by_version: dict[tuple[int, int], Path] = {}
    for candidate in candidates:
        question = (
            "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
        )
        answer = subprocess.run([candidate, "-c", question], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            major, minor, free_threaded = map(int, answer.stdout.split())
            if not free_threaded:
                by_version.setdefault((major, minor), candidate)
    later = sorted(version for version in by_version if version >= (3, 12))
    wanted = [version for version in ((3, 11), *later[:1]) if version in by_version]
    if missing := {(3, 11): "3.11", **({} if later else {(3, 12): "3.12 or newer"})}.keys() - set(wanted):
        print(f"No interpreter for: {', '.join('.'.join(map(str, version)) for version in sorted(missing))}")
    return {f"{major}{minor}": by_version[major, minor] for major, minor in wanted}


def environment(interpreter: Path) -> Path:
    """The Python of an environment with the build tools; CMake, Ninja and Zig are those of the running Python."""
    name = subprocess.run([interpreter, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    folder = WORK / f"python-{name}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", *BUILD_TOOLS]
        subprocess.run(install, check=True)
        (folder / "ready").touch()
    return python


def digest_sources() -> str:
    """SHA-256 of what wheels are made of."""
    digest = hashlib.sha256()
    for file in sorted(file for pattern in SOURCES for file in ROOT.glob(pattern)):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(ROOT)}\n{file.stat().st_size}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def build_wheel(python: Path, out: Path, *settings: str, **variables: str) -> Path:
    """Build one wheel into `out` and return its path."""
    fresh = WORK / "new"
    shutil.rmtree(fresh, ignore_errors=True)
    command = [python, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "--wheel-dir", fresh]
    command += [f"--config-settings={setting}" for setting in settings]
    subprocess.run([*command, ROOT], check=True, env=os.environ | {"PATH": search_path()} | variables)
    (wheel,) = fresh.glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, out / wheel.name))


@functools.cache
def build_kernel(target: Target) -> Path:
    """Compile the kernel once for all versions of Python, and run its self-test where something here can."""
    folder = WORK / target.zig
    cmake, ninja = (shutil.which(name, path=search_path()) for name in ("cmake", "ninja"))
    configure = [cmake, "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    subprocess.run([*configure, *compiler(target.zig)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", folder, "--target", "regard_selftest", "--parallel", "2"], check=True)
    run_selftest(target, folder / "regard_selftest")
    return folder / "libregard_kernel.a"


def run_selftest(target: Target, program: Path) -> None:
    """Run the self-test of a kernel, or say that nothing here can; once, for it takes minutes under an emulator."""
    passed = program.with_name("selftest-passed")
    if passed.exists() and passed.stat().st_mtime > program.stat().st_mtime:
        return
    processor = target.zig.split("-")[0]
    emulator = [] if processor == platform.machine() else [shutil.which(f"qemu-{processor}")]
    if emulator == [None]:
        print(f"{target.tag}: compiled, not run")
        return
    system = ["-L", f"/usr/{target.suffix}"] if emulator and target.suffix.endswith("gnu") else []
    subprocess.run([*emulator, *system, program], check=True)
    passed.touch()


def search_path() -> str:
    """PATH with the programs beside the running Python first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def build_linux(python: Path, version: str, target: Target, out: Path) -> Path:
    """Build a wheel around a compiled kernel and check that it needs no newer system than its name says."""
    wheel = build_wheel(
        python,
        WORK / "untagged",
        f"build-dir=build/wheels/{target.zig}-{version}",
        f"cmake.args={';'.join((*compiler(target.zig), f'-DREGARD_KERNEL={build_kernel(target)}'))}",
        _PYTHON_HOST_PLATFORM=f"linux-{target.zig.split('-')[0]}",
        SETUPTOOLS_EXT_SUFFIX=f".cpython-{version}-{target.suffix}.so",
    )
    retag = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", target.tag, wheel]
    retagged = subprocess.run(retag, capture_output=True, text=True, check=True)
    wheel = wheel.with_name(retagged.stdout.strip())
    show = [sys.executable, "-m", "auditwheel", "show", "--json", "--ldpaths", "", wheel]  # none of this machine's
    audit = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    if not fits(json.loads(audit), target.tag):
        raise SystemExit(f"{wheel.name} is not {target.tag}:\n{audit}")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, out / wheel.name))


def fits(audit: dict[str, Any], tag: str) -> bool:
    """Whether a wheel runs where its tag says, by what auditwheel found.

    Zig names musl `libc.so`, where auditwheel knows only Alpine's name for it; musl's loader takes both for itself.
    """
    musl = tag.startswith("musllinux") and list(audit["external_libs"]) == ["libc.so"]
    return bool(audit["overall_tag"] == tag or (musl and audit["sym_tag"] == tag))


def build_once(stamp: Path, out: Path, build: Callable[[], Path]) -> Path:
    """Build a wheel into `out`, unless it is there from an earlier run with the same sources; `stamp` remembers it."""
    digest = digest_sources()
    made_of, name = stamp.read_text().split() if stamp.exists() else ("", "")
    if made_of == digest and (out / name).is_file():
        print("      kept: its sources have not changed")
        return out / name
    begin = time.monotonic()
    wheel = build()
    if digest_sources() != digest:
        wheel.unlink()
        raise SystemExit("The sources have changed while the wheel was built: please build again.")
    stamp.write_text(f"{digest} {wheel.name}\n")
    print(f"      built in {time.monotonic() - begin:.0f} s", flush=True)
    return wheel


def write_checksums(out: Path) -> None:
    """SHA256SUMS of all wheels, for `sha256sum --check`."""
    lines = [f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}\n" for wheel in sorted(out.glob("*.whl"))]
    (out / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the wheels that this Linux machine can build.")
    parser.add_argument("out", type=Path, help="folder of the wheels")
    parser.add_argument("--only", default="", help="tags that contain this, such as x86_64, musl or any")
    arguments = parser.parse_args()
    tools = {number: environment(interpreter) for number, interpreter in interpreters().items()}
    builds: dict[str, Callable[[], Path]] = {}
    if arguments.only in PURE:
        builds[PURE] = functools.partial(build_wheel, [*tools.values()][-1], arguments.out, REGARD_NATIVE="off")
    for target in (target for target in LINUX if arguments.only in target.tag):
        for number, python in tools.items():
            builds[f"cp{number}-{target.tag}"] = functools.partial(build_linux, python, number, target, arguments.out)
    wheels = []
    for at, (label, build) in enumerate(builds.items(), 1):
        print(f"[{at}/{len(builds)}] {label}", flush=True)
        wheels.append(build_once(WORK / f"{label}.made", arguments.out, build))
    write_checksums(arguments.out)
    for wheel in wheels:
        print(f"{wheel.stat().st_size / 1e6:5.2f} MB  {wheel.name}")


if __name__ == "__main__":
    main()
