"""Hashes, canonical JSON and atomic writes, under exceptions, kills and readers that look on."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.files import (
    canonical_json,
    digest_of,
    files_below,
    read_json,
    replacing_folder,
    sha256_bytes,
    sha256_path,
    write_bytes,
    write_json,
    write_text,
)

ROOT = Path(__file__).parents[1]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed_in(program: str, folder: Path) -> None:
    """Run `program` in a process of its own that kills itself; `folder` is its argument."""
    head = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom components.files import *\nhere = Path(sys.argv[1])\n"
    )
    tail = "\ndie = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
    run = subprocess.run([sys.executable, "-c", head + tail + program, str(folder)], cwd=ROOT, check=False)
    assert run.returncode == -signal.SIGKILL


@given(VALUES)
def test_canonical_json_keeps_the_value_and_depends_on_it_alone(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text
    assert text.endswith("\n")


def test_the_order_of_keys_does_not_matter_and_every_value_does() -> None:
    assert canonical_json({"b": 1, "a": 2}) == canonical_json({"a": 2, "b": 1}) == '{\n  "a": 2,\n  "b": 1\n}\n'
    assert digest_of({"a": 1}) != digest_of({"a": 2})
    assert digest_of([1, 2]) != digest_of([2, 1])
    assert "é" in canonical_json("é")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), {"deep": [1.0, float("nan")]}])
def test_numbers_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


@pytest.mark.parametrize("value", [Path("a"), {1, 2}, b"bytes", {"deep": object()}])
def test_what_json_does_not_know_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        canonical_json(value)


def test_a_refused_value_leaves_the_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    assert read_json(tmp_path / "a.json") == {"old": 1}
    assert names_in(tmp_path) == ["a.json"]


def test_writing_makes_folders_and_an_ordinary_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "text"
    write_text(path, "zwölf\n")
    assert path.read_bytes() == "zwölf\n".encode()
    assert path.stat().st_mode & 0o777 == 0o644
    assert names_in(path.parent) == ["text"]


@pytest.mark.parametrize("error", [OSError("disc full"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_an_exception_while_writing_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, error: BaseException
) -> None:
    def broken(*_: object) -> None:
        raise error

    path = tmp_path / "file"
    write_bytes(path, b"old")
    monkeypatch.setattr(*((os, "fsync", broken) if moment == "fsync" else (Path, "replace", broken)))
    with pytest.raises(type(error)):
        write_bytes(path, b"new and longer")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize("moment", ["os.fsync = die", "Path.replace = die"])
def test_a_kill_while_writing_leaves_the_old_file_alone(tmp_path: Path, moment: str) -> None:
    write_bytes(tmp_path / "file", b"old")
    killed_in(f"{moment}\nwrite_bytes(here / 'file', b'new')", tmp_path)
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_reader_of_a_file_sees_one_content_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([letter]) * 200_000 for letter in b"ab"]
    write_bytes(path, contents[0])
    done = threading.Event()

    def write() -> None:
        for turn in range(40):
            write_bytes(path, contents[turn % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(path.read_bytes())
    writer.join()
    assert seen <= set(contents)


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with replacing_folder(target) as fresh:
        (fresh / "old").write_text("1")
        assert not target.exists()
    with replacing_folder(target) as fresh:
        assert names_in(fresh) == []
        (fresh / "new").write_text("2")
        assert names_in(target) == ["old"]
    assert names_in(target) == ["new"]
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_a_failing_block_leaves_the_old_folder(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "out"
    with replacing_folder(target) as fresh:
        (fresh / "old").write_text("1")

    def fill() -> None:
        with replacing_folder(target) as fresh:
            (fresh / "half").write_text("2")
            raise error

    with pytest.raises(type(error)):
        fill()
    assert names_in(target) == ["old"]
    assert names_in(tmp_path) == ["out"]


# where a call dies: inside the block, before the swap, in the middle of the swap, after it
KILLS = {
    "in the block": ("die()", "old"),
    "before the swap": ("Path.rename = die", "old"),
    "in the swap": (
        "rename = Path.rename\nPath.rename = lambda self, to: rename(self, to) if self.name == 'out' else die()",
        None,
    ),
    "after the swap": ("import shutil; shutil.rmtree = die", "new"),
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_kill_leaves_the_folder_whole_or_absent_and_the_next_call_mends_it(tmp_path: Path, moment: str) -> None:
    patch, left = KILLS[moment]
    target = tmp_path / "out"
    with replacing_folder(target) as fresh:
        (fresh / "old").write_text("1")
    killed_in(
        f"with replacing_folder(here / 'out') as fresh:\n  (fresh / 'new').write_text('2')\n  {_inside(patch)}",
        tmp_path,
    )
    assert (names_in(target) if target.exists() else None) == (None if left is None else [left])
    with replacing_folder(target) as fresh:
        assert names_in(fresh) == []
        (fresh / "newest").write_text("3")
    assert names_in(target) == ["newest"]
    assert names_in(tmp_path) == ["out"]


def _inside(patch: str) -> str:
    return patch.replace("\n", "\n  ")


def test_neighbours_with_similar_names_are_left_alone(tmp_path: Path) -> None:
    """A folder may be named by a user: what merely looks like a leftover is not ours to delete."""
    neighbours = [".out.backup", ".out.v2.new", ".out", "out.old"]
    for name in neighbours:
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").write_text("1")
    with replacing_folder(tmp_path / "out") as fresh:
        (fresh / "new").write_text("2")
    assert all((tmp_path / name / "kept").is_file() for name in neighbours)


@pytest.mark.parametrize("name", ["o[u]t", "out*", "what?"])
def test_a_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    (tmp_path / ".out.new").mkdir()
    for content in ("1", "2"):
        with replacing_folder(tmp_path / name) as fresh:
            (fresh / "file").write_text(content)
    assert (tmp_path / name / "file").read_text() == "2"
    assert names_in(tmp_path) == sorted([name, ".out.new"])


def test_a_reader_of_a_folder_never_sees_a_part(tmp_path: Path) -> None:
    """The folder is whole, or for a moment absent; it is never there with some of its files."""
    target, count = tmp_path / "out", 12
    done = threading.Event()

    def fill(turn: int) -> None:
        with replacing_folder(target) as fresh:
            for index in range(count):
                (fresh / f"{turn}-{index}").write_text("x")

    def write() -> None:
        for turn in range(60):
            fill(turn)
        done.set()

    fill(-1)
    writer = threading.Thread(target=write)
    writer.start()
    parts = []
    while not done.is_set():
        found = _listing(target)
        if found is not None and len(found) != count:
            parts.append(found)
    writer.join()
    assert parts == []


def _listing(folder: Path) -> list[str] | None:
    """The names in `folder`, or None when it was not there, or another had taken its place, while they were read."""
    try:
        before = folder.stat().st_ino
        found = names_in(folder)
        return found if folder.stat().st_ino == before else None
    except FileNotFoundError:
        return None


def test_the_digest_of_a_folder_depends_on_names_and_contents(tmp_path: Path) -> None:
    for name, content in {"a/x": "1", "a/deep/y": "2"}.items():
        write_text(tmp_path / name, content)
    digest = sha256_path(tmp_path / "a")
    write_text(tmp_path / "b" / "x", "1")
    write_text(tmp_path / "b" / "deep" / "y", "2")
    assert sha256_path(tmp_path / "b") == digest
    changes = {
        "renamed": lambda: (tmp_path / "b" / "x").rename(tmp_path / "b" / "z"),
        "moved": lambda: (tmp_path / "b" / "z").rename(tmp_path / "b" / "deep" / "z"),
        "edited": lambda: write_text(tmp_path / "b" / "deep" / "y", "3"),
        "added": lambda: write_text(tmp_path / "b" / "more", ""),
    }
    seen = {digest}
    for name, change in changes.items():
        change()
        assert sha256_path(tmp_path / "b") not in seen, name
        seen.add(sha256_path(tmp_path / "b"))


def test_compiled_files_and_leftovers_do_not_count(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "module.py", "x = 1\n")
    digest = sha256_path(tmp_path / "a")
    for name in ("__pycache__/module.cpython-311.pyc", "deep/__pycache__/other.pyc", ".DS_Store", ".gitignore"):
        write_text(tmp_path / "a" / name, "anything")
    assert sha256_path(tmp_path / "a") == digest
    assert [path.name for path in files_below(tmp_path / "a")] == ["module.py"]


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"abc")
    assert sha256_path(tmp_path / "file") == sha256_bytes(b"abc")
    # the published digest of "abc"
    assert sha256_bytes(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_digest_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="neither a file nor a folder"):
        sha256_path(tmp_path / "absent")
