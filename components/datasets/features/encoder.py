"""A frozen encoder: texts in, one vector for each of their tokens out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.datasets.features.config import EncoderConfig
from components.errors import ConfigError, DataError
from components.files import sha256_file

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Encoder:
    """`encode` gives float32 vectors; `dim` is their width D; `facts` name the encoder in a summary."""

    tokenizer: Any
    model: "torch.nn.Module"
    dim: int
    layer: int
    max_tokens: int
    device: str
    facts: dict[str, Any]

    def tokenize(self, texts: Sequence[str], seconds: Sequence[str] | None) -> list[list[int]]:
        """Token identifiers of each row, special tokens included, at most `max_tokens`."""
        pairs = list(seconds) if seconds is not None else None
        encoded = self.tokenizer(list(texts), pairs, truncation=True, max_length=self.max_tokens, verbose=False)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def lengths(self, texts: Sequence[str], seconds: Sequence[str] | None) -> list[int]:
        """Tokens of each row before any is cut."""
        pairs = list(seconds) if seconds is not None else None
        return [len(ids) for ids in self.tokenizer(list(texts), pairs, truncation=False, verbose=False)["input_ids"]]

    def encode(self, texts: Sequence[str], seconds: Sequence[str] | None) -> list[NDArray[np.float32]]:
        """One array (tokens, D) for each row; padding is masked from attention and not among the tokens."""
        import torch

        pairs = list(seconds) if seconds is not None else None
        form = {"padding": True, "return_tensors": "pt", "verbose": False}
        tokens = self.tokenizer(list(texts), pairs, truncation=True, max_length=self.max_tokens, **form)
        batch = tokens.to(self.device)
        with torch.inference_mode():
            states = self.model(**batch, output_hidden_states=True).hidden_states
        hidden = states[self.layer].float().cpu().numpy()
        mask = batch["attention_mask"].bool().cpu().numpy()
        return [row[kept] for row, kept in zip(hidden, mask, strict=True)]


def load_encoder(config: EncoderConfig, folder: Path | None, max_tokens: int, device: str, threads: int) -> Encoder:
    """The encoder in `folder` (the files of an entry), or from the hub where `folder` is None.

    Weights come from safetensors only and are float32; no code of a model's author is run. Raises DataError where the
    encoder cannot be had, ConfigError where it has no such layer or fewer positions.
    """
    # read at import, so they must be set before
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(threads)
    source = str(folder) if folder is not None else str(config.huggingface)
    where: dict[str, Any] = {"local_files_only": True} if folder is not None else {"revision": config.revision}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **where)
        model = AutoModel.from_pretrained(
            source, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, **where
        )
    except (OSError, ValueError) as error:
        named = f"entry {config.entry}" if folder is not None else f"{config.huggingface} at {config.revision}"
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the encoder {named} cannot be loaded: {reason}; check its name and the connection") from None
    if folder is None:
        _require_weights(config)
    return _frozen(config, tokenizer, model, max_tokens, device)


def _frozen(config: EncoderConfig, tokenizer: Any, model: Any, max_tokens: int, device: str) -> Encoder:
    states = model.config.num_hidden_layers + 1
    if not -states <= config.layer < states:
        raise ConfigError(f"encoder.layer is {config.layer}, allowed is {-states} to {states - 1} for this encoder")
    positions = getattr(model.config, "max_position_embeddings", max_tokens)
    if max_tokens > positions:
        raise ConfigError(
            f"max_tokens is {max_tokens}, allowed is at most {positions}, which this encoder has positions for"
        )
    if tokenizer.pad_token is None:
        raise ConfigError(
            "the encoder's tokenizer has no padding token, so rows cannot be encoded together; choose another"
        )
    facts = {
        "encoder": config.entry or config.huggingface,
        "revision": config.revision,
        "layer": config.layer,
        "dim": int(model.config.hidden_size),
        "layers": states - 1,
        "vocabulary": len(tokenizer),
    }
    model.eval().requires_grad_(False).to(device)
    return Encoder(tokenizer, model, int(model.config.hidden_size), config.layer, max_tokens, device, facts)


def _require_weights(config: EncoderConfig) -> None:
    if config.weights_sha256 is None:
        return
    from huggingface_hub import hf_hub_download

    path = Path(hf_hub_download(str(config.huggingface), "model.safetensors", revision=config.revision))
    came = sha256_file(path)
    if came != config.weights_sha256:
        raise DataError(
            f"model.safetensors of {config.huggingface}: got sha256 {came}, allowed is {config.weights_sha256} "
            "(encoder.weights_sha256); correct the configuration, or clear the hub's cache and fetch again"
        )
