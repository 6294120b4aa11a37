"""The whole graph at scale quick in several copies at once: the same bytes."""

import shutil

from tests.endtoend.copies import duplicate
from tests.endtoend.undisturbed import differences
from tests.soak.outcome import Outcome, Work

SECONDS = 3600


def determinism(work: Work, count: int) -> Outcome:
    """`count` copies run at the same time; every output of each must be the same as in the first."""
    copies = [duplicate(work.fresh, work.folder / f"quick-{number}") for number in range(1, count + 1)]
    work.say(f"{count} runs at scale quick at the same time")
    processes = [copy.start("quintet", "run", "--scale", "quick", "--no-after") for copy in copies]
    ends = [copy.wait(process, SECONDS) for copy, process in zip(copies, processes, strict=True)]
    failures = [f"run {number}: {end.text[-2000:]}" for number, end in enumerate(ends, start=1) if end.code != 0]
    first = copies[0].outputs()
    for number, copy in enumerate(copies[1:], start=2):
        failures += [f"run {number}: {name} differs" for name in differences(first, copy.outputs())]
        if copy.lock() != copies[0].lock():
            failures.append(f"run {number}: dvc.lock differs")
    stages = len(copies[0].lock())
    for copy in copies:
        shutil.rmtree(copy.folder)
    return Outcome({"stages": str(stages), "files compared": str(len(first))}, failures)
