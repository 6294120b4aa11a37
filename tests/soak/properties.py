"""The property tests of the methods with other examples, again and again."""

import os
import re
import subprocess
import sys

from tests.endtoend.copies import REPOSITORY
from tests.soak.outcome import Outcome, Work

PASSED = re.compile(r"(\d+) passed")


def properties(work: Work, count: int) -> Outcome:
    """Every property test of tests/methods, `count` times, each time with another seed and so with other examples."""
    failures: list[str] = []
    passed = 0
    for number in range(count):
        seed = work.seed + number
        work.say(f"property tests with seed {seed}, {number + 1} of {count}")
        command = [
            sys.executable, "-m", "pytest", "tests/methods", "-q", "-m", "hypothesis", "-p", "no:cacheprovider",
            f"--hypothesis-seed={seed}", "--tb=short",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "160"}
        )
        passed += sum(int(found) for found in PASSED.findall(done.stdout))
        if done.returncode != 0:
            failures.append(f"seed {seed}: {done.stdout[-3000:]}")
    return Outcome({"property tests passed": str(passed), "seeds": f"{work.seed} to {work.seed + count - 1}"}, failures)
