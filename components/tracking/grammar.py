"""What a metric's name says: its first part tells which of these it belongs to.

The form of names (lower case, parts separated by '/') is held by `components.tracking.records.check_metrics`; this
table is for readers, and is shown with every experiment in MLflow.
"""

from __future__ import annotations

METRIC_PREFIXES = {
    "train": "on the training rows, for each epoch",
    "validation": "on the validation rows, for each epoch; what early decisions may look at",
    "test": "on the test rows, once, after training",
    "baseline": "the same measure for simpler systems, as baseline/SYSTEM/MEASURE",
    "prototypes": "health of the prototypes: use, separation, and the parts of the loss",
    "stability": "what foretells a collapse: curvature, Lyapunov function, trend of the separation, verdict",
    "weights": "facts of the trained weights",
    "parity": "how far the ONNX model's answers are from the trained model's",
    "export": "facts of the exported model",
    "cost": "what a run of a study cost: parameters, multiply-adds for one input, steps, seconds",
    "reference": "of a study: mean over seeds of the arm that all others are compared with",
    "best": "of a study: mean over seeds of the arm with the best mean; being chosen for it, it flatters itself",
    "study": "of a study: number of arms, seeds and runs",
    "system": "load of the machine while the run lasted; not rebuilt when the store is lost",
}


def metric_table() -> str:
    """The table in Markdown."""
    rows = [f"| `{prefix}/` | {meaning} |" for prefix, meaning in METRIC_PREFIXES.items()]
    return "\n".join(["| metrics | what they are |", "|---|---|", *rows])
