"""The report after a run: data, gates, figures beside their baselines, pictures, in one file that needs nothing else.

It is made from the stage outputs, and from what the last attempts at stages failed with. It says nothing of times or
machines: the same outputs give the same report.
"""

import base64
from pathlib import Path
from typing import Any

from components.arrays import SPLITS
from components.config import TrainConfig, load_config
from components.files import read_json, write_text

REPORT = Path("run_info/report/index.html")
TEMPLATE = "report.html.jinja"
GATES = ("gate_model", "gate_export")


def write_report(root: Path) -> Path:
    """Write the report of what `outputs/` holds for the active configuration; returns its path."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    config = load_config(root / "params.yaml")
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    text = environment.get_template(TEMPLATE).render(
        scale=config.scale,
        datasets=[{**_dataset(root, name), "note": dataset.note} for name, dataset in config.datasets.items()],
        splits=SPLITS,
        features=[_features(root, name) for name in config.features],
        experiments=[
            {
                **_experiment(root, name),
                "earlier": _is_earlier(root, name, experiment, config.scale),
                "task": experiment.task,
                "method": experiment.method,
                "reads": experiment.reads,
                "seed": experiment.seed,
            }
            for name, experiment in config.experiments.items()
        ],
        studies=_studies(root),
    )
    path = root / REPORT
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    return path


def _dataset(root: Path, name: str) -> dict[str, Any]:
    docs = Path("run_info", "data_docs", name, "index.html")
    return {
        "name": name,
        "refusals": _refusals(root, name, ("prepare", "gate_data")),
        "summary": _if_there(root / "data" / "prepared" / name / "summary.json"),
        "gate": _if_there(root / "outputs" / "gate_data" / name / "report.json"),
        "docs": f"../data_docs/{name}/index.html" if (root / docs).is_file() else None,
    }


def _features(root: Path, name: str) -> dict[str, Any]:
    docs = Path("run_info", "data_docs", f"features-{name}", "index.html")
    return {
        "name": name,
        "refusals": _refusals(root, name, ("features", "gate_features")),
        "summary": _if_there(root / "data" / "features" / name / "summary.json"),
        "gate": _if_there(root / "outputs" / "gate_features" / name / "report.json"),
        "docs": f"../data_docs/features-{name}/index.html" if (root / docs).is_file() else None,
    }


def _experiment(root: Path, name: str) -> dict[str, Any]:
    evaluated = root / "outputs" / "evaluate" / name
    return {
        "name": name,
        "refusals": _refusals(root, name, ("train", "gate_model", "evaluate", "export", "gate_export")),
        "metrics": _if_there(evaluated / "metrics.json"),
        "plots": [_picture(path) for path in sorted((evaluated / "plots").glob("*.png"))],
        "gates": {gate: _if_there(root / "outputs" / gate / name / "report.json") for gate in GATES},
        "manifest": _if_there(root / "outputs" / "train" / name / "manifest.json"),
        "record": _if_there(root / "outputs" / "train" / name / "record.json"),
        "prototypes": _if_there(evaluated / "prototypes.json"),
        "explanations": _if_there(evaluated / "explanations.json"),
    }


def _studies(root: Path) -> list[dict[str, Any]]:
    """Every study that was run here, with its last comparison by its own metric, and the pictures of that."""
    found = []
    for path in sorted((root / "outputs" / "studies").glob("*/study.json")):
        study, compared = read_json(path), _if_there(path.with_name("comparison.json"))
        stem = study["metric"].replace("/", "_")
        plots = [path.parent / "plots" / f"{name}.png" for name in (f"{stem}_arms", f"{stem}_differences")]
        metric = compared["metrics"][study["metric"]] if compared else None
        found.append(
            {
                **study,
                "compared": metric,
                "differences": {one["arm"]: one for one in metric["differences"]} if metric else {},
                "notes": compared["notes"] if compared else [],
                "plots": [_picture(plot) for plot in plots if plot.is_file()],
            }
        )
    return found


def _refusals(root: Path, name: str, stages: tuple[str, ...]) -> dict[str, str]:
    """What the last attempt at each stage failed with: it left the old output, which is not about this attempt."""
    accounts = {f"{stage}@{name}": _if_there(root / "run_info" / "stages" / f"{stage}@{name}.json") for stage in stages}
    return {address: said["error"] for address, said in accounts.items() if said and said["state"] == "failed"}


def _is_earlier(root: Path, name: str, experiment: TrainConfig, scale: str) -> bool:
    """Whether the trained model is of another configuration than the active one, as after a run that failed."""
    trained = _if_there(root / "outputs" / "train" / name / "config.json")
    active = experiment.model_dump(mode="json", include=set(TrainConfig.model_fields))
    return trained is not None and trained != {"experiment": active, "scale": scale}


def _if_there(path: Path) -> Any:
    return read_json(path) if path.is_file() else None


def _picture(path: Path) -> dict[str, str]:
    encoded = base64.b64encode(path.read_bytes()).decode("ascii")
    return {"title": path.stem.replace("_", " "), "source": f"data:image/png;base64,{encoded}"}


def _figure(value: Any) -> str:
    if isinstance(value, list):
        return f"{_figure(value[0])} to {_figure(value[1])}"
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
