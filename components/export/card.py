"""The model card: what a bundle does, on what data it was made, what it must not be used for."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.config import TaskConfig


def model_card(
    *,
    name: str,
    method: str,
    task: TaskConfig,
    fields: Sequence[Mapping[str, Any]],
    data: Mapping[str, Any],
    validation: Mapping[str, float],
) -> str:
    """The card as Markdown. It says nothing of times or machines, so the same model has the same card."""
    inputs = [
        f"| {field['name']} | {field['unit']} | {field['minimum']:g} to {field['maximum']:g} |" for field in fields
    ]
    scores = [f"| {metric} | {value:.4f} |" for metric, value in sorted(validation.items())]
    lines = [
        f"# {name}",
        "",
        f"Method `{method}`: predicts `{task.target}` ({', '.join(task.classes)}).",
        "",
        "## Inputs",
        "",
        "`tokens` (batch, tokens, features) in physical units; `mask` (batch, tokens), true for real tokens. An object",
        "is a bag of element sets: a catalogue row is one token. Scaling is part of the model. A sequence without a",
        "real token is answered with the bias of the classifier, which is no statement about anything.",
        "",
        "| feature | unit | range |",
        "|---|---|---|",
        *inputs,
        "",
        "## Outputs",
        "",
        "`logits` and `probabilities` (batch, classes); `assignments` (batch, prototypes), the mixture of prototypes",
        "that the decision rests on. `prototypes.json` says what each prototype stands for.",
        "",
        "## Data",
        "",
        f"{data.get('title', data['entry'])}: {data['rows']} rows. Licence: {data['licence']}.",
        *([str(data["note"])] if data.get("note") else []),
        "",
        "## Measured on the validation split",
        "",
        "| metric | value |",
        "|---|---|",
        *scores,
        "",
        "## Limits",
        "",
        *(text for text in (task.note, task.limits) if text),
        "",
    ]
    return "\n".join(lines)
