"""The file that says what a study consists of, and the results of its runs. A comparison reads nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import ComparisonError, UsageError
from components.files import write_json
from components.studies.checking import Results
from components.studies.plan import Plan
from components.studies.running import account, finished, read_object, require_unchanged

STUDIES = Path("outputs/studies")
STUDY_NAME = "study.json"
FORMAT = "quintet-study/1"


def study_folder(root: Path, name: str) -> Path:
    return root / STUDIES / name


def write_study(root: Path, plan: Plan) -> Path:
    """Write `study.json`: question, arms with the digests of their runs, and how they are to be compared."""
    study = plan.config
    path = study_folder(root, plan.name) / STUDY_NAME
    write_json(
        path,
        {
            "format": FORMAT,
            "name": plan.name,
            "question": study.question,
            "experiment": study.experiment,
            "method": plan.method,
            "scale": study.scale,
            "knobs": list(study.knobs),
            "reference": study.reference,
            "metric": study.metric,
            "goal": study.goal,
            "also": list(study.also),
            "goals": {study.metric: study.goal, **study.also},
            "comparison": study.comparison.model_dump(mode="json"),
            "confidence": study.comparison.confidence,
            "seeds": list(study.seed_list),
            "arms": [
                {
                    "name": arm,
                    "settings": study.arm_settings[arm],
                    "runs": {str(run.seed): run.digest for run in runs},
                }
                for arm, runs in plan.arms.items()
            ],
        },
    )
    return path


def read_study(root: Path, name: str) -> dict[str, Any]:
    """The study as it was last run. Raises UsageError when it never was."""
    path = study_folder(root, name) / STUDY_NAME
    if not path.is_file():
        known = sorted(found.parent.name for found in (root / STUDIES).glob(f"*/{STUDY_NAME}"))
        raise UsageError(
            f"study {name!r} has not been run here; `quintet ablate {name}` does; "
            f"there are results of: {', '.join(known) or 'none'}"
        )
    return read_object(path, FORMAT, f"delete it; `quintet ablate {name}` writes it anew and makes no run twice")


@dataclass(frozen=True)
class Gathered:
    """The results of a study by arm and seed, in the order of `study.json`, and the runs that have none."""

    results: Results
    missing: tuple[tuple[str, int, str], ...]

    @property
    def complete(self) -> Results:
        """The arms that have a result for every seed."""
        short = {arm for arm, _, _ in self.missing}
        return {arm: runs for arm, runs in self.results.items() if arm not in short}


def gather(root: Path, study: Mapping[str, Any]) -> Gathered:
    """Read the results. Raises ComparisonError for one of another run than its place says, RecordError when changed."""
    results: dict[str, dict[int, Mapping[str, Any]]] = {}
    missing = []
    for arm in study["arms"]:
        of_arm: dict[int, Mapping[str, Any]] = {}
        for seed in study["seeds"]:
            digest = arm["runs"][str(seed)]
            result = finished(root, digest)
            if result is None:
                missing.append((arm["name"], seed, account(root, digest).get("error") or "not run yet"))
            elif (result.get("digest"), result.get("seed")) != (digest, seed):
                raise ComparisonError(
                    f"the result of arm {arm['name']}, seed {seed} is that of another run; delete "
                    f"outputs/study_runs/{digest} and run the study again"
                )
            else:
                require_unchanged(root, digest)
                of_arm[seed] = result
        results[arm["name"]] = of_arm
    return Gathered(results, tuple(missing))
