"""One character of a shipped file or of a prepared table is another: nothing passes as what it is not."""

import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pandas as pd

from components.config import load_config
from components.datasets.core.catalogue import Entry, load_catalogue
from components.datasets.core.fetching import fetch
from components.datasets.readers import reader_named
from components.errors import DataError
from components.quality.orbital.gate import gate_orbital
from tests.soak.edits import Edit, one_character
from tests.soak.outcome import Outcome, Work

ENTRIES = ("orbital-sample", "orbital-tle-sample")
LINE = re.compile(r"lines? (\d+)")


def corruption(work: Work, count: int) -> Outcome:
    """`count` edits of each shipped file, and a quarter as many of a prepared table."""
    figures: dict[str, str] = {}
    failures: list[str] = []
    for name in ENTRIES:
        work.say(f"{count} edits of {name}")
        counts, found = _edit_sample(work, name, count)
        figures[name] = _told(counts)
        failures += found
    work.say(f"{max(1, count // 4)} edits of a prepared table")
    counts, found = _edit_table(work, max(1, count // 4))
    figures["prepared table at the gate"] = _told(counts)
    return Outcome(figures, failures + found)


def _edit_sample(work: Work, name: str, count: int) -> tuple[Counter[str], list[str]]:
    """Each edited file must be refused in one line that names it, and where a reader finds the fault, its line."""
    root = work.folder / f"edits-{name}"
    entry = load_catalogue(work.fresh.root).entry(name)
    (file,) = entry.files
    source = work.fresh.root / str(file.sample)
    path = root / str(file.sample)
    path.parent.mkdir(parents=True)
    shutil.copy2(source, path)
    text = source.read_bytes().decode()
    good = _read(entry, source)
    generator = random.Random(f"{work.seed} {name}")
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for _ in range(count):
        edit = one_character(text, generator)
        path.write_bytes(edit.text.encode())
        verdict, fault = _judge(entry, root, path, edit, good)
        counts[verdict] += 1
        failures += [f"{name}, {edit.what}: {fault}"] if fault else []
    shutil.rmtree(root)
    return counts, failures


def _judge(entry: Entry, root: Path, path: Path, edit: Edit, good: pd.DataFrame) -> tuple[str, str]:
    """What became of an edit, and what is wrong with that: empty when nothing is."""
    try:
        fetch(entry, root)
    except DataError as refused:
        said = str(refused)
    except Exception as error:  # noqa: BLE001
        return "a defect", f"{type(error).__name__}: {error}"
    else:
        return "accepted", "the edited file was accepted"
    form = "" if path.name in said and "\n" not in said and "git checkout" in said else f"not a usable line: {said!r}"
    if "reads without fault" not in said:
        return "refused with its line", form or _misplaced(said, edit)
    equal = _read(entry, path).equals(good)
    return ("refused by digest, the content is equal" if equal else "refused by digest, another value"), form


def _misplaced(said: str, edit: Edit) -> str:
    """A fault shows on the edited line, or on the next when a line end came or went; otherwise this says where."""
    lines = {int(number) for number in LINE.findall(said)}
    near = {edit.line - 1, edit.line, edit.line + 1, edit.line + 2}
    whole_file = "the last" in said or "byte order mark" in said
    return "" if lines & near or whole_file else f"the fault is placed elsewhere: {said}"


def _read(entry: Entry, path: Path) -> pd.DataFrame:
    table: pd.DataFrame = reader_named(entry.reader)([path], entry)
    return table


def _edit_table(work: Work, count: int) -> tuple[Counter[str], list[str]]:
    """Each edited table is refused in lines that name it, or holds other values that every rule allows."""
    name = "orbital-sample"
    copy = work.undisturbed.copy
    source = copy.root / "data" / "prepared" / name / "table.csv"
    options = load_config(copy.root / "params.yaml").dataset(name).gate
    text = source.read_text(encoding="utf-8")
    path = work.folder / "table.csv"
    generator = random.Random(f"{work.seed} table")
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for _ in range(count):
        edit = one_character(text, generator)
        path.write_bytes(edit.text.encode())
        try:
            report = gate_orbital(path, options, subject="table.csv")
        except Exception as error:  # noqa: BLE001
            failures.append(f"table, {edit.what}: {type(error).__name__}: {error}")
            continue
        located = any(str(edit.line) in LINE.findall(finding) for finding in report.findings)
        verdict = "passed, a plausible value" if report.verdict == "passed" else "refused"
        counts[f"{verdict} with its line" if located else verdict] += 1
        nameless = [finding for finding in report.findings if not finding.startswith("table.csv") or "\n" in finding]
        failures += [f"table, {edit.what}: {finding}" for finding in nameless]
    path.unlink()
    return counts, failures


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{times} {verdict}" for verdict, times in counts.most_common())
