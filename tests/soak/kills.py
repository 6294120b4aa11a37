"""Sudden ends at random moments: the next run must leave what an undisturbed one leaves."""

import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import psutil

from tests.endtoend.copies import Copy, duplicate
from tests.endtoend.undisturbed import traces
from tests.soak.outcome import Outcome, Work

# Time from the command to the first stage.
START_SECONDS = 6.0
QUIET_SECONDS = 30.0

Processes = list[psutil.Process]


def kills(work: Work, count: int) -> Outcome:
    """`count` times: a random stage and all below it must run again, and somebody is killed meanwhile."""
    undisturbed = work.undisturbed
    # the comparison finds nothing where there is nothing to be found
    failures = [f"undisturbed: {trace}" for trace in traces(undisturbed.copy, undisturbed, undisturbed.ended)]
    killed: Counter[str] = Counter()
    quiet: list[float] = []
    for number in range(1, count + 1):
        generator = random.Random(f"{work.seed} {number}")
        copy = duplicate(undisturbed.copy, work.folder / f"kill-{number}")
        address = generator.choice(sorted(copy.lock()))
        victim = generator.choice(sorted(VICTIMS))
        forgotten = copy.below(address)
        moment = generator.uniform(0.0, START_SECONDS + expected_seconds(copy, forgotten))
        title = f"kill {number} of {count}: {victim} after {moment:.1f} s, from {address} on"
        work.say(title)
        copy.forget(*forgotten)
        seconds, hit = end_suddenly(copy, victim, moment)
        killed[hit] += 1
        quiet.append(seconds)
        found = traces(copy, undisturbed, copy.quintet("run"))
        if seconds > QUIET_SECONDS:
            found.append(f"processes went on for {seconds:.0f} s after the end of the run")
        failures += [f"{title}: {trace}" for trace in found]
        copy.kill_all()
        shutil.rmtree(copy.folder)
    return Outcome(
        {
            "killed": ", ".join(f"{name} {times}" for name, times in sorted(killed.items())),
            "equal to the undisturbed run": f"{count - len({text.partition(':')[0] for text in failures})} of {count}",
            "longest time until all processes had ended": f"{max(quiet):.1f} s",
        },
        failures,
    )


def expected_seconds(copy: Copy, addresses: list[str]) -> float:
    """How long these stages take, by what the undisturbed run says, two at a time."""
    content = json.loads((copy.root / "run_info" / "last_run.json").read_text(encoding="utf-8"))
    return 0.5 * sum(float(entry["seconds"]) for entry in content["stages"] if entry["address"] in addresses)


def end_suddenly(copy: Copy, victim: str, moment: float) -> tuple[float, str]:
    """Run the graph and kill `victim` after `moment` seconds, or as soon as there is one after that.

    Returns the seconds until nothing of the run was left, and who was killed.
    """
    process = copy.start("quintet", "run")
    since = time.monotonic()
    hit = "nobody, the run was over"
    while process.poll() is None and hit != victim:
        time.sleep(0.02)
        found = VICTIMS[victim](copy, process) if time.monotonic() - since >= moment else []
        for one in found:
            _kill(one)
            hit = victim
    copy.wait(process)
    since = time.monotonic()
    while copy.living() and time.monotonic() - since < 2 * QUIET_SECONDS:
        time.sleep(0.1)
    return time.monotonic() - since, hit


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def _the_flow(copy: Copy, process: "subprocess.Popen[bytes]") -> Processes:
    return [psutil.Process(process.pid)]


def _with_words(*words: str) -> Callable[[Copy, "subprocess.Popen[bytes]"], Processes]:
    def find(copy: Copy, _: "subprocess.Popen[bytes]") -> Processes:
        return [one for one in copy.living() if set(words) <= set(_arguments(one))]

    return find


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return [os.path.basename(word) for word in process.cmdline()]  # noqa: PTH119
    except psutil.Error:
        return []


def _everything(copy: Copy, _: "subprocess.Popen[bytes]") -> Processes:
    return copy.living()


# Whom a kill may hit, and how they are found.
VICTIMS: dict[str, Callable[[Copy, "subprocess.Popen[bytes]"], Processes]] = {
    "the flow": _the_flow,
    "the stages": _with_words("quintet", "stage"),
    "DVC": _with_words("dvc", "repro"),
    "everything at once": _everything,
}
