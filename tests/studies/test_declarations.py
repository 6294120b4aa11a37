"""Our reading of the templates of dvc.yaml against DVC's own."""

from pathlib import Path

import pytest
import yaml

from components.errors import UsageError
from components.stages.execution import STAGES, read_declaration
from components.studies.declarations import Templates

ROOT = Path(__file__).resolve().parents[2]


def addresses() -> list[str]:
    lock = yaml.safe_load((ROOT / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    # one of each stage and kind of data is enough: DVC takes a fifth of a second for each
    chosen: dict[str, str] = {}
    for address in lock:
        stage, _, name = address.partition("@")
        key = f"{stage} {name}" if stage in ("prepare", "gate_data") else stage
        chosen.setdefault(key, address)
    return list(chosen.values())


@pytest.mark.parametrize("address", addresses())
def test_a_stage_is_read_as_dvc_reads_it(address: str) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    assert Templates(ROOT).declaration(params, address) == read_declaration(ROOT, address)


def test_the_comparison_above_covers_every_stage() -> None:
    assert {address.partition("@")[0] for address in addresses()} == set(STAGES)


def test_outputs_have_their_producers_and_files_of_the_checkout_none() -> None:
    templates = Templates(ROOT)
    assert templates.producer("data/prepared/orbital-sample") == "prepare@orbital-sample"
    assert templates.producer("outputs/gate_data/orbital-sample") == "gate_data@orbital-sample"
    assert templates.producer("data/features/some") == "features@some"
    assert templates.producer("data/samples/orbital") is None
    assert templates.producer("components/config.py") is None


def test_what_the_configuration_lacks_is_named() -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    with pytest.raises(UsageError, match="stage train@nobody needs 'nobody' among the experiments of this scale"):
        Templates(ROOT).declaration(params, "train@nobody")
    del params["experiments"]["orbital-kind"]["seed"]
    with pytest.raises(UsageError, match=r"has no experiments.orbital-kind.seed, which stage train@orbital-kind needs"):
        Templates(ROOT).declaration(params, "train@orbital-kind")
