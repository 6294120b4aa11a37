"""The tasks of GLUE as published: a zip archive of TSV files, whose forms differ from task to task.

No field is quoted, so a quotation mark is an ordinary character. Test files hold no labels and are passed over.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.datasets.core.archives import Limits, Member, members, missing_member
from components.datasets.core.catalogue import Entry
from components.datasets.core.faults import fault
from components.datasets.text.checks import Rows, checked, label_in
from components.datasets.text.options import TextOptions, text_options
from components.datasets.text.source import TextRow, TextSource
from components.errors import ConfigError

LIMITS = Limits(member_bytes=1 << 30, total_bytes=1 << 31, members=1_000)


@dataclass(frozen=True)
class Task:
    """Where a task's files lie, and which of their columns are what. Without a header columns are numbered from 0."""

    folder: str
    text: str
    label: str
    second: str | None = None
    header: bool = True
    validation: str = "dev.tsv"


TASKS: Mapping[str, Task] = {
    "cola": Task("CoLA", text="3", label="1", header=False),
    "sst2": Task("SST-2", "sentence", "label"),
    "stsb": Task("STS-B", "sentence1", "score", "sentence2"),
    "qqp": Task("QQP", "question1", "is_duplicate", "question2"),
    "mnli": Task("MNLI", "sentence1", "gold_label", "sentence2", validation="dev_matched.tsv"),
    "mnli-mismatched": Task("MNLI", "sentence1", "gold_label", "sentence2", validation="dev_mismatched.tsv"),
    "qnli": Task("QNLI", "question", "label", "sentence"),
    "rte": Task("RTE", "sentence1", "label", "sentence2"),
    "wnli": Task("WNLI", "sentence1", "label", "sentence2"),
}


def read_glue(paths: Sequence[Path], entry: Entry) -> TextSource:
    """Train and development rows of a task. Raises DataError with member, line and column."""
    (path,) = paths
    options = text_options(entry)
    if options.task is None or options.task not in TASKS:
        raise ConfigError(
            f"options of {entry.name} in data/catalogue.yaml: task is {options.task!r}, allowed is one of "
            f"{', '.join(TASKS)}"
        )
    task = TASKS[options.task]
    names = {"train": f"{task.folder}/train.tsv", "validation": f"{task.folder}/{task.validation}"}
    there = [member.name for member in members(path, LIMITS)]
    for name in names.values():
        if name not in there:
            raise missing_member(path, name, there)
    parts = {split: checked(path, _rows(path, split, name, task, options)) for split, name in names.items()}
    return TextSource(options.classes, task.second is not None, parts)


def _rows(path: Path, split: str, name: str, task: Task, options: TextOptions) -> Rows:
    def reading() -> Iterator[TextRow]:
        for member in members(path, LIMITS):
            if member.name == name:
                yield from _parsed(path, split, member, task, options)

    return reading


def _parsed(path: Path, split: str, member: Member, task: Task, options: TextOptions) -> Iterator[TextRow]:
    place: dict[str, int] = {}
    width = 0
    for number, line in enumerate(member.lines(), 1):
        fields = line.removesuffix("\r").split("\t")
        where = f"member {member.name}, line {number}"
        if number == 1:
            width = len(fields)
            place = _places(path, where, fields, task)
            if task.header:
                continue
        # QNLI and others leave a trailing field out nowhere: a ragged line has lost or gained a tab
        if len(fields) != width:
            raise fault(path, where, f"{len(fields)} fields", f"{width} fields, as in the first line")
        label = label_in(path, where, fields[place[task.label]], options)
        second = fields[place[task.second]] if task.second is not None else None
        yield TextRow(f"{split}-{number}", fields[place[task.text]], second, label)


def _places(path: Path, where: str, fields: list[str], task: Task) -> dict[str, int]:
    wanted = [name for name in (task.text, task.label, task.second) if name is not None]
    names = fields if task.header else [str(index) for index in range(len(fields))]
    for name in wanted:
        if name not in names:
            raise fault(
                path, where, f"no column {name!r} (it has {', '.join(names[:12])})", f"columns {', '.join(wanted)}"
            )
    return {name: names.index(name) for name in wanted}
