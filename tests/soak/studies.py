"""A whole study at scale tiny, killed at random moments, against one that was made undisturbed."""

import random
import shutil
import time

from components.studies.config import load_studies
from tests.endtoend.copies import Copy, duplicate
from tests.endtoend.studies import comparison, finished, results
from tests.soak.kills import QUIET_SECONDS
from tests.soak.outcome import Outcome, Work

STUDY = "readout-tiny"


def studies(work: Work, count: int) -> Outcome:
    """`count` times: the study is started and killed by SIGKILL somewhere between a fifth and four fifths of its runs.

    It must then go on with what is missing, in another number of processes, and end with the same bytes.
    """
    config = load_studies(work.fresh.root)[STUDY]
    runs = len(config.arm_settings) * len(config.seed_list)
    work.say("the study undisturbed, two processes at once")
    undisturbed = duplicate(work.fresh, work.folder / "study")
    ended = undisturbed.quintet("ablate", STUDY, "--max-parallel", "2")
    failures = [] if ended.code == 0 else [f"undisturbed: {ended.text[-2000:]}"]
    figures = {
        "runs of the study": str(runs),
        "files compared": str(len(results(undisturbed)) + len(comparison(undisturbed, STUDY))),
    }
    kept = []
    for number in range(1, count + 1):
        at = random.Random(f"{work.seed} {number}").randint(runs // 5, 4 * runs // 5)
        copy = duplicate(work.fresh, work.folder / f"study-{number}")
        title = f"kill {number} of {count}, after {at} runs"
        work.say(title)
        made = killed_after(copy, at)
        kept.append(str(made))
        ended = copy.quintet("ablate", STUDY, "--max-parallel", "1" if number % 2 else "3")
        if f"{runs} runs: {runs - made} made, {made} were there already" not in ended.text or ended.code != 0:
            failures.append(f"{title}: {ended.text[-500:]}")
        for what, found, wanted in (
            ("runs", results(copy), results(undisturbed)),
            ("comparison", comparison(copy, STUDY), comparison(undisturbed, STUDY)),
        ):
            if found != wanted:
                differing = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
                failures.append(f"{title}: {what} differ: {differing[:3]}")
        copy.kill_all()
        shutil.rmtree(copy.folder)
    return Outcome({**figures, "runs that were there after each kill": ", ".join(kept)}, failures)


def killed_after(copy: Copy, runs: int) -> int:
    """Start the study, kill it when so many runs are finished, and wait for all of it to end; returns the finished."""
    process = copy.start("quintet", "ablate", STUDY)
    while process.poll() is None and len(finished(copy)) < runs:
        time.sleep(0.05)
    process.kill()
    copy.wait(process)
    deadline = time.monotonic() + QUIET_SECONDS
    while copy.living() and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(finished(copy))
