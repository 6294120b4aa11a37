"""Hashes, canonical JSON and atomic writes: the small file operations every stage shares."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Compiled files and editor leftovers say nothing about what a folder contains.
IGNORED_NAMES = frozenset({"__pycache__", ".DS_Store", ".gitignore"})


def sha256_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_path(path: Path) -> str:
    """Digest of a file, or of a folder: the names and digests of all files below it, in sorted order."""
    if path.is_file():
        return sha256_file(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is neither a file nor a folder")
    lines = [f"{sha256_file(file)}  {file.relative_to(path).as_posix()}\n" for file in files_below(path)]
    return sha256_bytes("".join(lines).encode())


def files_below(folder: Path) -> list[Path]:
    return sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not IGNORED_NAMES.intersection(file.relative_to(folder).parts)
    )


def canonical_json(value: Any) -> str:
    """JSON whose text depends on the value alone. NaN and infinity have no JSON form and are refused."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(value: Any) -> str:
    return sha256_bytes(canonical_json(value).encode())


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_text(path: Path, text: str) -> None:
    """Write `path` so that a reader sees the old content or the new one, never a part."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner reads; these are ordinary ones.
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    write_text(path, canonical_json(value))


@contextlib.contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target` that takes its place when the block succeeds, and vanishes when it fails.

    A kill at any moment leaves `target` complete or absent, and at worst two hidden folders, `.NAME.new` and
    `.NAME.old`, that the next call removes.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # these two names and no pattern: `target` may be named by a user, among folders that are not ours
    fresh, old = (target.parent / f".{target.name}.{state}" for state in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
