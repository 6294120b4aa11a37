"""train: one training run, streamed to the tracking store while it lasts, its weights and history as outputs."""

import shutil

from components.config import TrainConfig
from components.files import write_json
from components.stages.artifacts import dataset_reference, prepared_table, run_digest
from components.stages.execution import Context


def run(context: Context) -> None:
    from safetensors.torch import save_file

    from components.tracking.live import LiveRun
    from components.tracking.records import new_record, short_parameters, write_history, write_record
    from components.tracking.runs import RunIdentity
    from components.training.core.tables import load_table, majority_accuracy
    from components.training.core.trainer import fit
    from components.training.registry import method

    config = context.section(TrainConfig, f"experiments.{context.name}")
    scale = context.values("scale")
    digest = run_digest(context)
    trainer = method(config.method)
    trainer.check(config)
    table = load_table(prepared_table(context, config.dataset), config.task)
    module = trainer.untrained(config, table)
    resolved = {"experiment": config.model_dump(mode="json"), "scale": scale}
    parameters, _ = short_parameters(resolved["experiment"])
    identity = RunIdentity(context.name, config.method, config.dataset, scale, digest)
    checkpoint = context.root / ".quintet" / "checkpoints" / digest / "last.ckpt"
    with LiveRun(context.root, identity, parameters) as live:
        result = fit(module, table, config, checkpoint, live.log)
    context.note(device=result.device.accelerator, device_reason=result.device.reason, resumed=result.resumed)
    weights = {name: tensor.contiguous() for name, tensor in module.network.state_dict().items()}
    save_file(weights, context.folder / "model.safetensors")
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
            "train/rows": float(len(table.train)),
            # what the model gate measures learning against
            "validation/majority_accuracy": majority_accuracy(table),
        },
        history=history,
        artifacts=["config.json"],
        datasets=[dataset_reference(context, config.dataset, "train")],
    )
    write_record(context.folder, record)
    # what is finished must not be resumed: a repeated stage trains again, and so proves that it gives the same bytes
    shutil.rmtree(checkpoint.parent)
