"""What came of one start of a study, kept in `run_info/studies/`."""

from dataclasses import asdict, dataclass
from pathlib import Path

from components.files import read_json, write_json
from pipelines.studies.progress import duration


@dataclass(frozen=True)
class StudyResult:
    """Runs by what became of them. `failed` names each with its reason; `notes` are for the reader of the summary."""

    study: str
    total: int
    made: int
    kept: int
    failed: tuple[tuple[str, str], ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        return not self.failed and self.made + self.kept == self.total

    def summary(self) -> str:
        parts = [f"{self.made} made", f"{self.kept} were there already"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        missing = self.total - self.made - self.kept - len(self.failed)
        parts += [f"{missing} not run"] if missing else []
        return f"study {self.study}: {self.total} runs: {', '.join(parts)}, in {duration(self.seconds)}"


def result_path(root: Path, study: str) -> Path:
    return root / "run_info" / "studies" / f"{study}.json"


def save_result(root: Path, result: StudyResult) -> None:
    write_json(result_path(root, result.study), asdict(result))


def load_result(root: Path, study: str) -> StudyResult:
    content = read_json(result_path(root, study))
    failed = tuple((label, why) for label, why in content["failed"])
    return StudyResult(**{**content, "failed": failed, "notes": tuple(content["notes"])})
