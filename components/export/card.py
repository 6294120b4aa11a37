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
    width: int,
    validation: Mapping[str, float],
) -> str:
    """The card as Markdown. It says nothing of times or machines, so the same model has the same card."""
    scores = [f"| {metric} | {value:.4f} |" for metric, value in sorted(validation.items())]
    lines = [
        f"# {name}",
        "",
        f"Method `{method}`: predicts `{task.target}` ({', '.join(task.classes)}).",
        "",
        "## Inputs",
        "",
        *(_table_inputs(fields) if fields else _feature_inputs(data, width)),
        "",
        "## Outputs",
        "",
        "`logits` and `probabilities` (batch, classes); `assignments` (batch, prototypes), the mixture of prototypes",
        "that the decision rests on. `prototypes.json` says what each prototype stands for.",
        "",
        "## Data",
        "",
        _data(data),
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


_MASK = (
    "`mask` (batch, tokens), true for real tokens. Scaling is part of the model. A sequence without a real token is "
    "answered with the bias of the classifier, which is no statement about anything."
)


def _table_inputs(fields: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        "`tokens` (batch, tokens, features) in physical units; an object is a bag of element sets: a catalogue row is",
        f"one token. {_MASK}",
        "",
        "| feature | unit | range |",
        "|---|---|---|",
        *(f"| {field['name']} | {field['unit']} | {field['minimum']:g} to {field['maximum']:g} |" for field in fields),
    ]


def _feature_inputs(data: Mapping[str, Any], width: int) -> list[str]:
    longest = data["compute"]["max_tokens"]
    return [
        f"`tokens` (batch, tokens, {width}): hidden states of the frozen encoder `{data['encoder']}` (layer "
        f"{data['layer']}), special tokens included, of texts cut at {longest} tokens. {_MASK}",
    ]


def _data(data: Mapping[str, Any]) -> str:
    if "encoder" in data:
        return f"Token features of `{data['dataset']}`: {data['tokens']} tokens of {data['rows']} rows."
    return f"{data.get('title', data['entry'])}: {data['rows']} rows. Licence: {data['licence']}."
