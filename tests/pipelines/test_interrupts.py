"""A command that a script starts in the background can be interrupted all the same, and so can its children."""

import signal
import subprocess
import sys

import pytest

from pipelines.interrupts import take_interrupts

# What the child of a deaf process says of interrupts; `{}` is what the process does before it starts the child.
PROCESS = """
import subprocess, sys
from pipelines.interrupts import take_interrupts
{}
child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
sys.exit(subprocess.run([sys.executable, "-c", child]).returncode)
"""


@pytest.mark.parametrize(("first", "hears"), [("take_interrupts()", "True"), ("pass", "False")])
def test_children_of_a_deaf_process_hear_again(first: str, hears: str) -> None:
    # a shell that is not interactive does this to what it starts in the background
    deaf = f"trap '' INT; exec '{sys.executable}' -c '{PROCESS.format(first)}'"
    answer = subprocess.run(["bash", "-c", deaf], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.strip() == hears


def test_a_handler_that_is_there_stays() -> None:
    def mine(*_: object) -> None:
        raise NotImplementedError

    before = signal.signal(signal.SIGINT, mine)
    try:
        take_interrupts()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
