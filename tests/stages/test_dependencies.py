"""What a stage imports, `dvc.yaml` must name: otherwise a change of code would leave an old result standing."""

from pathlib import Path

import grimp
import pytest

from components.config import load_config
from components.datasets.readers import READERS
from components.datasets.registry import KINDS
from components.stages.execution import STAGES, read_declaration
from components.training.registry import METHODS

ROOT = Path(__file__).parents[2]

# Imported, but without influence on what a stage writes into its output.
WITHOUT_INFLUENCE = {
    # the text of errors, what is said of progress, and the lists of names behind which the declared code lies
    "components.errors",
    "components.progress",
    "components.datasets.readers",
    "components.datasets.registry",
    "components.quality.registry",
    "components.stages.execution",
    "components.training.registry",
    # tracking is a view of the outputs: only the form of the records is part of them
    "components.tracking.live",
    "components.tracking.runs",
    "components.tracking.store",
}

ADDRESSES = {
    "features": "features@rotten-tomatoes-sample-minilm",
    "gate_features": "gate_features@rotten-tomatoes-sample-minilm",
    "train": "train@orbital-kind",
    "gate_model": "gate_model@orbital-kind",
    "evaluate": "evaluate@orbital-kind",
    "export": "export@orbital-kind",
    "gate_export": "gate_export@orbital-kind",
}
# A data set of each kind and source that params.yaml names.
DATASETS = {
    (dataset.kind, dataset.source): name for name, dataset in load_config(ROOT / "params.yaml").datasets.items()
}
CASES = [*ADDRESSES.values(), *(f"{stage}@{name}" for name in DATASETS.values() for stage in ("prepare", "gate_data"))]


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("components", cache_dir=None)


def path_of(module: str) -> str:
    """The module's file, or for a package its `__init__.py`, as `dvc.yaml` would name it."""
    path = Path(*module.split("."))
    return (path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")).as_posix()


def needed(graph: grimp.ImportGraph, stage: str, name: str) -> set[str]:
    """Everything that the stage's module imports, at its top or inside a function, and what that imports in turn."""
    starts = {STAGES[stage]}
    of_name = {folder for folders, of_kind in DATASETS.items() for folder in folders if name == of_kind}
    others = set(KINDS) - of_name if of_name else set()
    for (kind, source), of_kind in DATASETS.items():
        # the registries name these as text
        if name == of_kind and stage in ("prepare", "gate_data"):
            starts.add(KINDS[kind])
        if name == of_kind and stage == "prepare":
            starts |= {
                place.split(":")[0] for place in READERS.values() if place.startswith(f"components.datasets.{source}.")
            }
        if name == of_kind and stage == "gate_data":
            starts.add(f"components.quality.{kind}.gate")
    if stage in ("features", "gate_features"):
        starts.add(READERS["encoder-files"].split(":")[0])
    if stage in ("train", "evaluate", "export", "gate_export"):
        # the registry names these as text
        starts |= set(METHODS.values())
    found: set[str] = set()
    while starts:
        module = starts.pop()
        if module in found or module in WITHOUT_INFLUENCE:
            continue
        # sequences are made of other kinds as well, by code that runs for these alone
        if module.startswith("components.datasets.") and module.split(".")[2] in others:
            continue
        found.add(module)
        starts |= graph.find_modules_directly_imported_by(module)
    return found


def test_every_kind_of_stage_is_checked() -> None:
    assert {address.partition("@")[0] for address in CASES} == set(STAGES)
    # of kinds that no data set of params.yaml has, nothing is checked here
    assert {kind for kind, _ in DATASETS} == set(KINDS)


@pytest.mark.parametrize("address", CASES)
def test_the_code_that_a_stage_runs_is_among_its_deps(imports: grimp.ImportGraph, address: str) -> None:
    stage, _, name = address.partition("@")
    declared = read_declaration(ROOT, address).inputs
    files = {
        path_of(module)
        for module in needed(imports, stage, name)
        # an __init__ of docstring and names has no influence of its own
        if (ROOT / path_of(module)).name != "__init__.py"
    }
    missing = sorted(file for file in files if not any(file == dep or file.startswith(f"{dep}/") for dep in declared))
    assert not missing, f"dvc.yaml: stage {address} imports {missing}, which its deps do not cover"


@pytest.mark.parametrize("address", CASES)
def test_every_declared_path_of_code_exists(address: str) -> None:
    code = [path for path in read_declaration(ROOT, address).inputs if path.startswith("components")]
    assert code
    assert [path for path in code if not (ROOT / path).exists()] == []
