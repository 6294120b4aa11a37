"""gate_export: the bundle is whole, and its model answers as the trained one does, at every shape and awkward input."""

from components.config import ExportConfig
from components.errors import BundleError
from components.quality.core.report import Check, GateReport
from components.stages.artifacts import read_folder, record_for, trained_run
from components.stages.execution import Context
from components.stages.export import real_tokens
from components.stages.gating import conclude_gate

# Real tokens that parity cases are made of.
PARITY_TOKENS = 2048


def run(context: Context) -> None:
    from components.export.bundle import verify_bundle
    from components.export.parity import Tolerance, compare
    from components.tracking.records import BUNDLE_TAG, bundle_digest, write_record
    from components.training.data.forms import read_data
    from components.training.registry import classifier

    trained = trained_run(context)
    config = context.section(ExportConfig, f"exports.{context.name}")
    bundle = context.input(f"outputs/export/{context.name}/bundle")
    subject = f"bundle {context.name}"
    mend = "run the export stage again; if it persists, the exporter and the model disagree"
    try:
        verify_bundle(bundle)
    except BundleError as error:
        whole = Check("bundle/whole", False, str(error), "every file is the one the manifest names", mend=mend)
        conclude_gate(context, GateReport("export", subject, (whole,)))
    servable = classifier(trained.config.method).servable(trained.config, trained.weights)
    data = read_data(trained.config, read_folder(context, trained.config))
    cases = compare(
        (bundle / "model.onnx").read_bytes(),
        servable.module,
        real_tokens(data.test, PARITY_TOKENS),
        servable.outputs,
        Tolerance(config.absolute_tolerance, config.relative_tolerance),
        trained.config.seed,
    )
    allowed = (
        f"a difference of at most {config.absolute_tolerance:g} + {config.relative_tolerance:g} times the trained "
        "value, and the same decisions"
    )
    checks = [
        Check(
            f"parity/{case.name}",
            case.passed,
            case.fault or f"{case.worst:.3g} of what is allowed, {case.decisions} other decisions",
            allowed,
            mend=mend,
        )
        for case in cases
    ]
    conclude_gate(context, GateReport("export", subject, tuple(checks)))
    record = record_for(
        context,
        trained,
        tags={BUNDLE_TAG: bundle_digest(bundle)},
        metrics={
            "parity/cases": float(len(cases)),
            "parity/worst_share_of_tolerance": max(case.worst for case in cases),
        },
        artifacts=["report.json"],
    )
    write_record(context.folder, record)
