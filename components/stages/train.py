"""train: one training run, streamed to the tracking store while it lasts, its weights and history as outputs."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import TrainConfig
from components.files import write_json
from components.stages.artifacts import dataset_reference, read_folder, run_digest
from components.stages.execution import Context

if TYPE_CHECKING:
    from components.tracking.live import LiveRun
    from components.tracking.records import Scalar
    from components.tracking.runs import RunIdentity
    from components.training.core.module import TrainableModule
    from components.training.core.trainer import FitResult
    from components.training.data.batches import TrainingData

    OpenLive = Callable[[RunIdentity, Mapping[str, Scalar]], LiveRun]

WEIGHTS_NAME = "model.safetensors"


@dataclass(frozen=True)
class Trained:
    """A training that came to its end: what it ran on, and how it went."""

    config: TrainConfig
    data: "TrainingData[Any]"
    module: "TrainableModule"
    result: "FitResult"


def run(context: Context) -> None:
    from components.tracking.live import LiveRun

    digest = run_digest(context)
    train(context, digest, lambda identity, parameters: LiveRun(context.root, identity, parameters))
    # what is finished must not be resumed: a repeated stage trains again, and so proves that it gives the same bytes
    shutil.rmtree(checkpoint_path(context.root, digest).parent)


def checkpoint_path(root: Path, digest: str) -> Path:
    """Where the run with this digest can be taken up again, by whoever asks for the same digest."""
    return root / ".quintet" / "checkpoints" / digest / "last.ckpt"


def train(context: Context, digest: str, open_live: "OpenLive", seconds: float | None = None) -> Trained:
    """Train as the context's configuration says, for `seconds` at most, and write weights, history and record.

    Raises BudgetError when the time is over, and what `components.training.core.trainer.fit` raises; the checkpoint of
    `digest` then says where to go on.
    """
    from safetensors.torch import save_file

    from components.tracking.records import new_record, short_parameters, write_history, write_record
    from components.tracking.runs import RunIdentity
    from components.training.core.trainer import fit
    from components.training.data.batches import majority_accuracy
    from components.training.data.forms import read_data
    from components.training.registry import method

    config = context.section(TrainConfig, f"experiments.{context.name}")
    scale = context.values("scale")
    trainer = method(config.method)
    trainer.check(config)
    data = read_data(config, read_folder(context, config))
    module = trainer.untrained(config, data)
    resolved = {"experiment": config.model_dump(mode="json"), "scale": scale}
    parameters, _ = short_parameters(resolved["experiment"])
    identity = RunIdentity(context.name, config.method, config.dataset, scale, digest)
    with open_live(identity, parameters) as live:
        result = fit(module, data, config, checkpoint_path(context.root, digest), live.log, seconds)
    for remark in module.remarks():
        print(f"stability: {remark}", flush=True)
    context.note(
        remarks=module.remarks(),
        device=result.device.accelerator,
        device_reason=result.device.reason,
        resumed=result.resumed,
        train_seconds=round(result.seconds, 3),
        train_cpu_seconds=round(result.cpu_seconds, 3),
    )
    weights = {name: tensor.contiguous() for name, tensor in module.network.state_dict().items()}
    save_file(weights, context.folder / WEIGHTS_NAME)
    write_json(context.folder / "config.json", resolved)
    history = write_history(context.folder, ((entry["step"], entry["metrics"]) for entry in result.history))
    record = new_record(
        context.address,
        stage="train",
        experiment=context.name,
        method=config.method,
        dataset=config.dataset,
        scale=scale,
        digest=digest,
        parameters=parameters,
        metrics={
            **result.history[-1]["metrics"],
            "train/rows": float(len(data.train)),
            # what the model gate measures learning against
            "validation/majority_accuracy": majority_accuracy(data),
        },
        history=history,
        artifacts=["config.json"],
        datasets=[dataset_reference(context, config, "train")],
    )
    write_record(context.folder, record)
    return Trained(config, data, module, result)
