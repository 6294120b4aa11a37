"""The doctor's checks of what is installed: Python, the locked packages, and the one ONNX runtime."""

import platform
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from pipelines.verdicts import Verdict, ok, problem, warning

SHOWN = 4
SETUP = "make setup"
RUNTIMES = ("onnxruntime", "onnxruntime-gpu")


def check_python(root: Path) -> Verdict:
    wanted = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    found = platform.python_version()
    if SpecifierSet(wanted).contains(found, prereleases=True):
        return ok("python", f"{found} (wanted: {wanted})")
    return problem(
        "python",
        f"{found}, wanted is {wanted}",
        "make the environment with another Python: make setup PYTHON=python3.12",
    )


def check_packages(root: Path) -> Verdict:
    """Installed versions against constraints.txt, and that nothing which the project needs is missing."""
    locked = {requirement.name.lower(): requirement for requirement in _requirements(root / "constraints.txt")}
    installed = {name: _installed(name) for name in locked}
    needed = [Requirement(text) for text in _dependencies(root)]
    missing = sorted(need.name for need in needed if _applies(need) and _installed(need.name) is None)
    if missing:
        return problem("packages", f"not installed: {_few(missing)}", SETUP)
    # the local part names a build (2.13.0+cpu), not a version
    other = [
        f"{name} {found} (locked: {locked[name].specifier})"
        for name, found in installed.items()
        if found is not None and not locked[name].specifier.contains(found.partition("+")[0], prereleases=True)
    ]
    count = sum(found is not None for found in installed.values())
    if other:
        return warning(
            "packages",
            f"{len(other)} of {count} differ from constraints.txt: {_few(other)}",
            f"{SETUP}; results may differ until then",
        )
    return ok("packages", f"{count} packages as in constraints.txt")


def check_onnxruntime(root: Path) -> Verdict:
    """Exactly one of the two runtimes: they overwrite each other's files, and pip does not notice."""
    found = [f"{name} {_installed(name)}" for name in RUNTIMES if _installed(name)]
    if len(found) == 1:
        return ok("onnxruntime", found[0])
    if not found:
        return problem("onnxruntime", "neither onnxruntime nor onnxruntime-gpu is installed", SETUP)
    return problem(
        "onnxruntime",
        f"{' and '.join(found)} are both installed, and overwrite each other's files",
        f"pip uninstall -y {' '.join(RUNTIMES)} && {SETUP}",
    )


def _requirements(path: Path) -> Iterator[Requirement]:
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        requirement = Requirement(text) if text and not text.startswith("-") else None
        if requirement and _applies(requirement):
            yield requirement


def _dependencies(root: Path) -> list[str]:
    content = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return list(content["project"]["dependencies"])


def _applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _few(items: list[str]) -> str:
    rest = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(items[:SHOWN]) + rest
