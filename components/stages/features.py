"""features: token features of a prepared text by a frozen encoder, computed once."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.config import Name, Strict
from components.datasets.features.config import EncoderConfig, FeatureOptions
from components.files import digest_of, write_json
from components.stages.execution import Context


class ComputeConfig(Strict):
    """The part of a configuration of features that computing depends on."""

    dataset: Name
    compute: FeatureOptions


def run(context: Context) -> None:
    from components.datasets.features.computing import compute_features, read_texts
    from components.datasets.features.encoder import load_encoder
    from components.progress import progress
    from components.training.core.device import choose_device

    config = context.section(ComputeConfig, f"features.{context.name}")
    options = config.compute
    choice = choose_device(options.accelerator)
    device = {"cpu": "cpu", "gpu": "cuda"}[choice.accelerator]
    texts = read_texts(context.input(f"data/prepared/{config.dataset}"))
    encoder = load_encoder(
        options.encoder, encoder_folder(context, options.encoder), options.max_tokens, device, options.threads
    )
    state = chunks_folder(context.root, context.identity, encoder.facts, device)
    with progress(f"features {context.name}", "tokens") as tell:
        facts = compute_features(texts, encoder, options, context.folder, state, tell)
    context.note(device=device, device_reason=choice.reason, chunks_resumed=facts.pop("chunks_resumed"))
    write_json(context.folder / "summary.json", {"dataset": config.dataset, **facts, "compute": told(options)})
    print(f"{facts['tokens']} tokens of {facts['rows']} rows by {facts['encoder']}", flush=True)
    # what is finished must not be resumed: a repeated stage computes again, and so proves that it gives the same bytes
    shutil.rmtree(state)


def chunks_folder(root: Path, identity: Mapping[str, Any], encoder: Mapping[str, Any], device: str) -> Path:
    """Where finished chunks wait. Those of another device or of other weights are other chunks: a configuration may
    leave the device open, and names an encoder whose files the catalogue pins.
    """
    return root / ".quintet" / "features" / digest_of({"stage": identity, "encoder": encoder, "device": device})


def told(options: FeatureOptions) -> dict[str, Any]:
    """The options that change what comes out."""
    return options.model_dump(mode="json", exclude={"accelerator"})


def encoder_folder(context: Context, encoder: EncoderConfig) -> Path | None:
    """Where the files of an entry lie, fetched and read strictly; None for an encoder of the hub."""
    from components.datasets.core.catalogue import load_catalogue
    from components.datasets.core.fetching import fetch
    from components.datasets.readers import reader_named
    from components.errors import ConfigError
    from components.progress import progress

    if encoder.entry is None:
        return None
    os.environ["HF_HUB_OFFLINE"] = "1"
    entry = load_catalogue(context.root).entry(encoder.entry)
    if entry.reader != "encoder-files":
        raise ConfigError(f"entry {entry.name!r} is no encoder but is read by {entry.reader!r}; choose another entry")
    with progress(f"fetching {entry.name}", "bytes") as tell:
        folder: Path = reader_named(entry.reader)(fetch(entry, context.root, progress=tell).paths, entry)
    return folder
