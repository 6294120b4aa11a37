"""The model card says what goes in, what comes out, on what data the model was made and what it is not for."""

from typing import Any

import pytest

from components.config import TaskConfig
from components.export.card import model_card

TASK = TaskConfig(
    target="kind",
    classes=("PAYLOAD", "DEBRIS"),
    features=("inclination_deg", "perigee_km"),
    note="Objects of one launch never lie in two splits.",
    limits="Not for operational decisions.",
)
FIELDS = [
    {"name": "inclination_deg", "unit": "deg", "minimum": 0.0, "maximum": 180.0},
    {"name": "perigee_km", "unit": "km", "minimum": -6378.0, "maximum": 1e6},
]
DATA = {"entry": "some-entry", "title": "Some objects", "rows": 12, "licence": "public", "note": "A stand-in."}


def card(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "name": "orbital-kind",
        "method": "ddcl-readout",
        "task": TASK,
        "fields": FIELDS,
        "data": DATA,
        "width": 2,
        "validation": {"validation/loss": 0.5, "validation/accuracy": 0.98765},
    }
    return model_card(**{**fields, **changes})


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_every_section_is_there_once_and_in_order() -> None:
    headings = [line for line in card().splitlines() if line.startswith("#")]
    assert headings == [
        "# orbital-kind",
        "## Inputs",
        "## Outputs",
        "## Data",
        "## Measured on the validation split",
        "## Limits",
    ]


def test_each_feature_has_its_unit_and_range() -> None:
    inputs = section(card(), "Inputs")
    assert "| inclination_deg | deg | 0 to 180 |" in inputs
    assert "| perigee_km | km | -6378 to 1e+06 |" in inputs
    assert "physical units" in inputs


def test_method_task_and_classes_are_named() -> None:
    assert "Method `ddcl-readout`: predicts `kind` (PAYLOAD, DEBRIS)." in card()


def test_data_come_with_licence_size_and_note() -> None:
    data = section(card(), "Data")
    assert "Some objects: 12 rows. Licence: public." in data
    assert "A stand-in." in data


@pytest.mark.parametrize("key", ["title", "note"])
def test_what_the_data_do_not_say_is_left_out(key: str) -> None:
    text = card(data={name: value for name, value in DATA.items() if name != key})
    assert "None" not in text
    assert ("some-entry: 12 rows" in text) is (key == "title")


def test_measures_stand_in_order_whatever_order_they_come_in() -> None:
    scores = section(card(), "Measured on the validation split")
    assert scores.index("| validation/accuracy | 0.9877 |") < scores.index("| validation/loss | 0.5000 |")
    turned = {"validation/accuracy": 0.98765, "validation/loss": 0.5}
    assert card(validation=turned) == card()


def test_limits_and_note_of_the_task_are_said() -> None:
    limits = section(card(), "Limits")
    assert TASK.note in limits
    assert TASK.limits in limits


def test_tables_have_one_row_a_line_and_no_loose_end() -> None:
    lines = card().splitlines()
    assert all(line.endswith("|") for line in lines if line.startswith("|"))
    assert card().endswith("\n")
    assert not any(line != line.rstrip() for line in lines)


def test_features_of_an_encoder_are_told_by_the_encoder() -> None:
    encoder = {"encoder": "minilm-l6", "layer": -1, "compute": {"max_tokens": 48}}
    data = {**encoder, "dataset": "reviews", "tokens": 345, "rows": 12}
    text = card(fields=[], data=data, width=384)
    assert "(batch, tokens, 384): hidden states of the frozen encoder `minilm-l6` (layer -1)" in section(text, "Inputs")
    assert "cut at 48 tokens" in section(text, "Inputs")
    assert "physical units" not in text
    assert "Token features of `reviews`: 345 tokens of 12 rows." in section(text, "Data")
