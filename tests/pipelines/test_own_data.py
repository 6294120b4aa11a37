"""A user's own data by one command: inferred, shown, asked, judged, and only then written."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from rich.console import Console

from components.datasets.core.catalogue import load_catalogue
from components.datasets.core.fetching import fetch
from components.errors import DataError, DataGateError, UsageError
from components.stages.inspecting import dataset_named, inspect
from pipelines.own_data import add_own

ROOT = Path(__file__).parents[2]
WORDS = ["good", "bad", "fine", "film", "plot", "actor", "scene", "music", "story", "dull", "bright", "long"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the project's catalogue and configuration, under DVC without git."""
    root = tmp_path / "checkout"
    (root / "data").mkdir(parents=True)
    shutil.copy(ROOT / "data" / "catalogue.yaml", root / "data")
    shutil.copy(ROOT / "params.yaml", root)
    shutil.copytree(ROOT / "conf" / "dataset", root / "conf" / "dataset")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"], cwd=root, check=True)
    return root


def table(path: Path, rows: int = 120, label: Callable[[int], str] = lambda i: ("up", "down")[i % 2]) -> Path:
    generator = np.random.default_rng(3)
    lines = [f"{i},{' '.join(generator.choice(WORDS, 12))},{label(i)}" for i in range(rows)]
    path.write_text("number,review,sentiment\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def add(
    root: Path, path: Path, name: str = "mine", answer: bool = True, text: str | None = None, label: str | None = None
) -> tuple[bool, str]:
    console = Console(record=True, width=200)
    added = add_own(root, path, name, text, label, lambda _: answer, console)
    return added, console.export_text()


def everything(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".dvc" not in path.parts
    }


def test_a_table_becomes_an_entry_that_can_be_prepared(checkout: Path, tmp_path: Path) -> None:
    catalogue = (checkout / "data" / "catalogue.yaml").read_text()
    added, said = add(checkout, table(tmp_path / "reviews.csv"))
    assert added
    for told in (
        "text: column 'review'",
        "label: column 'sentiment'",
        "down (60), up (60)",
        "not used: number",
        "passed",
    ):
        assert told in said
    # what stood there stands there still, comments included
    assert (checkout / "data" / "catalogue.yaml").read_text().startswith(catalogue.rstrip("\n"))
    entry = load_catalogue(checkout).entry("mine")
    fetched = fetch(entry, checkout)
    assert fetched.paths[0].read_bytes() == (tmp_path / "reviews.csv").read_bytes()
    assert yaml.safe_load((checkout / "data" / "raw" / "mine.dvc").read_text())["outs"][0]["path"] == "mine"
    inspection = inspect(checkout, "mine", dataset_named(checkout, "mine"), entry, fetched.paths)
    assert inspection.report.verdict == "passed"
    assert inspection.summary["rows"] == 120
    # the profile that was accepted is the one that it is compared with
    assert any(check.name == "drift/index" for check in inspection.report.checks)


def pictures(folder: Path, rows: int = 30, size: tuple[int, int] = (8, 8)) -> Path:
    for number, label in enumerate(("cat", "dog")):
        (folder / label).mkdir(parents=True)
        for i in range(rows):
            pixels = np.random.default_rng(1000 * number + i).integers(0, 255, (*size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{i}.png")
    return folder


def test_a_folder_of_pictures_becomes_one_archive(checkout: Path, tmp_path: Path) -> None:
    added, said = add(checkout, pictures(tmp_path / "pictures"))
    assert added
    assert "60 images of 8 by 8 pixels, 3 channels" in said
    assert "cat (30), dog (30)" in said
    first = load_catalogue(checkout).entry("mine").files[0].sha256
    add(checkout, tmp_path / "pictures", "again")
    assert load_catalogue(checkout).entry("again").files[0].sha256 == first


def test_labelled_lines_become_an_entry(checkout: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    lines = [f"{('up', 'down')[i % 2]}\t{' '.join(generator.choice(WORDS, 9))}" for i in range(100)]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    added, said = add(checkout, tmp_path / "lines.txt")
    assert added
    assert "100 lines of a label, a tab and a text" in said


@pytest.mark.parametrize(("words", "unit"), [(40, "word"), (5000, "byte")])
def test_plain_text_becomes_language_by_words_or_bytes(checkout: Path, tmp_path: Path, words: int, unit: str) -> None:
    generator = np.random.default_rng(7)
    drawn = [f"word{number}" for number in generator.integers(words, size=4000).tolist()]
    lines = [" ".join(drawn[start : start + 8]) for start in range(0, len(drawn), 8)]
    # repeated headings and blank lines are in any text
    (tmp_path / "notes.txt").write_text("\n\nA heading\n".join(lines), encoding="utf-8")
    added, said = add(checkout, tmp_path / "notes.txt")
    assert added
    for told in ("mine: kind language, read by language-text", "999 lines of text, 4998 words", f"tokens: {unit}s"):
        assert told in said
    entry = load_catalogue(checkout).entry("mine")
    paths = fetch(entry, checkout).paths
    inspection = inspect(checkout, "mine", dataset_named(checkout, "mine"), entry, paths)
    assert inspection.report.verdict == "passed"
    assert inspection.summary["unit"] == unit
    # each blank line is one <eos>, or one line feed
    in_words = 4998 + 999 + 499
    in_bytes = len(paths[0].read_bytes()) + 1
    assert inspection.summary["rows"] == {"word": in_words, "byte": in_bytes}[unit]


def test_nothing_is_written_where_the_user_declines(checkout: Path, tmp_path: Path) -> None:
    before = everything(checkout)
    added, _ = add(checkout, table(tmp_path / "reviews.csv"), answer=False)
    assert not added
    assert everything(checkout) == before


FAULTS = [
    pytest.param("absent.csv", None, "there is no file or folder", id="absent"),
    pytest.param("a.docx", b"x", "is of type '.docx'; allowed are .csv", id="type"),
    pytest.param("a.csv", b"", "an empty file", id="empty"),
    pytest.param("a.csv", b"review,label\n", "no rows", id="header alone"),
    pytest.param("a.csv", b"review,label\ngood,up\nbad\n", "1 fields, allowed is 2", id="ragged"),
    pytest.param("a.csv", b"review,label\ng\xf6od,up\nbad,down\n", "byte 0xf6, allowed is utf-8 text", id="latin-1"),
    pytest.param("a.csv", b"\xef\xbb\xbfreview,label\na b,1\nc d,0\n", "got a byte order mark", id="byte order mark"),
    pytest.param("a.csv", b"review;label\na b;1\nc d;0\n", "perhaps separated by ';', allowed is", id="semicolons"),
    pytest.param("a.csv", b"review,label\ngo\0od,up\nbad,down\n", "a NUL byte", id="NUL"),
    pytest.param("a.csv", b"a,b\n1,2\n3,4\n", "no column holds text, only numbers", id="numbers"),
    pytest.param("a.csv", b"review,label\ngood film,up\nbad film,up\n", "1 different values in column", id="one class"),
    pytest.param(
        "a.csv", b"review,x,z\na b,1,1\nc d,2,2\ne f,1,2\ng h,2,1\n", "2 columns that could be", id="no label"
    ),
    pytest.param("a.txt", b"\n\n", "no text", id="blank"),
    pytest.param("a.txt", b"word\n", "mine: got 1 documents", id="one word"),
]


@pytest.mark.parametrize(("name", "content", "told"), FAULTS)
def test_a_fault_is_one_line_and_nothing_is_written(
    checkout: Path, tmp_path: Path, name: str, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = everything(checkout)
    with pytest.raises((DataError, UsageError), match=told) as caught:
        add(checkout, tmp_path / name)
    assert "\n" not in str(caught.value)
    assert everything(checkout) == before


def test_what_the_gate_refuses_is_not_added(checkout: Path, tmp_path: Path) -> None:
    path = table(tmp_path / "wrongly_decoded.csv")
    # what dashes of Windows become when they are read as latin-1
    path.write_text(path.read_text().replace(" ", " \x96 "), encoding="utf-8")
    before = everything(checkout)
    with pytest.raises(DataGateError, match="wrongly decoded"):
        add(checkout, path)
    assert everything(checkout) == before


@pytest.mark.parametrize(("name", "told"), [("mnist", "already a data set 'mnist'"), ("My Data", "small letters")])
def test_a_name_must_be_new_and_one_word(checkout: Path, tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        add(checkout, table(tmp_path / "reviews.csv"), name)


def test_columns_can_be_named(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    rows = [f"{i % 2},{i % 3},a longer text number {i}" for i in range(90)]
    path.write_text("first,second,words\n" + "\n".join(rows) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"2 columns that could be the label \(first, second\); name it by --label"):
        add(checkout, path)
    with pytest.raises(UsageError, match=r"--label names 'third', but .* has the columns first, second, words"):
        add(checkout, path, label="third")
    _, said = add(checkout, path, label="second")
    assert "label: column 'second', 3 classes" in said


def test_other_files_among_pictures_are_named(checkout: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "pictures", rows=3)
    (folder / "cat" / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"notes.txt: got a file of type '.txt'"):
        add(checkout, folder)
