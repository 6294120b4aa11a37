"""All long checks. A new one is a function and an entry here."""

from tests.soak.corruption import corruption
from tests.soak.determinism import determinism
from tests.soak.kills import kills
from tests.soak.memory import memory
from tests.soak.outcome import Check
from tests.soak.properties import properties
from tests.soak.requests import requests
from tests.soak.studies import studies

CHECKS = {
    check.name: check
    for check in (
        Check(
            "kills",
            "The flow, a stage, DVC or everything is killed at a random moment of a run at scale tiny; the next "
            "run must leave the same outputs and tracking store as an undisturbed one, no lock, no process and no "
            "RUNNING run.",
            kills,
            "kills",
            20,
            16,
        ),
        Check(
            "corruption",
            "One random character of a shipped file is replaced, left out or put in: the file must be refused in "
            "one line that names it, with the line of the fault where its reader finds one. A quarter as many "
            "edits of a prepared table go to the data gate.",
            corruption,
            "edits of each file",
            200,
            5,
        ),
        Check(
            "requests",
            "Random requests to a served model: none is answered by an error of the server, each refusal has its "
            "reason, and a good request between them is always answered alike.",
            requests,
            "requests",
            2000,
            2,
        ),
        Check(
            "properties",
            "All property tests of the methods, each time with a new seed and so with new examples.",
            properties,
            "seeds",
            25,
            8,
        ),
        Check(
            "determinism",
            "The graph at scale quick in copies at different places at the same time: every output has the same bytes.",
            determinism,
            "runs",
            2,
            7,
        ),
        Check(
            "studies",
            "A study of twelve arms by five seeds at scale tiny is killed by SIGKILL and started again: it must make "
            "what is missing and nothing else, and end with the same bytes as one that was undisturbed.",
            studies,
            "kills",
            4,
            14,
        ),
        Check(
            "memory",
            "Preparing stand-ins of the full size of published sets, made of the subsets that QUINTET_DATA_MIRROR has: "
            "the process must stay below 2 GiB.",
            memory,
            "runs of each",
            1,
            1,
        ),
    )
}
