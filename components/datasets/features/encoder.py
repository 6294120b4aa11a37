"""A frozen encoder: texts in, one vector for each of their tokens out."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.datasets.features.config import EncoderConfig
from components.datasets.features.encoder_files import NEEDED, WEIGHTS
from components.errors import ConfigError, DataError
from components.files import sha256_file

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Encoder:
    """`encode` gives float32 vectors; `dim` is their width D; `facts` are what a summary says of the encoder.

    `states` is how many hidden states the model has; `layer` says which of them is taken.
    """

    tokenizer: Any
    model: "torch.nn.Module"
    dim: int
    layer: int
    states: int
    max_tokens: int
    device: str
    facts: dict[str, Any]

    def tokenize(self, texts: Sequence[str], seconds: Sequence[str] | None) -> list[list[int]]:
        """Token identifiers of each row, special tokens included, at most `max_tokens`."""
        pairs = list(seconds) if seconds is not None else None
        encoded = self.tokenizer(list(texts), pairs, truncation=True, max_length=self.max_tokens, verbose=False)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def vocabulary(self) -> list[str]:
        """The word of each identifier; a subword that goes on one before it begins as the tokenizer marks that."""
        words: list[str] = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        return words

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
            hidden = self._hidden(batch).float().cpu().numpy()
        mask = batch["attention_mask"].bool().cpu().numpy()
        return [row[kept] for row, kept in zip(hidden, mask, strict=True)]

    def _hidden(self, batch: Any) -> "torch.Tensor":
        """(B, T, D). The states below the last are kept in memory only where one of them is asked for."""
        taken: torch.Tensor
        if self.layer in (-1, self.states - 1):
            taken = self.model(**batch).last_hidden_state
        else:
            taken = self.model(**batch, output_hidden_states=True).hidden_states[self.layer]
        return taken


def load_encoder(config: EncoderConfig, folder: Path | None, max_tokens: int, device: str, threads: int) -> Encoder:
    """The encoder in `folder` (the files of an entry), or from the hub where `folder` is None.

    Weights come from safetensors only and are float32; no code of a model's author is run. Raises DataError where the
    encoder cannot be had or lacks weights, ConfigError where it has no such layer, fewer layers or fewer positions.
    """
    # read at import, so they must be set before
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(threads)
    source = str(folder) if folder is not None else str(config.huggingface)
    where: dict[str, Any] = {"local_files_only": True} if folder is not None else {"revision": config.revision}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **where)
        shape = AutoConfig.from_pretrained(source, trust_remote_code=False, **where)
        _cut(shape, config.layers)
        model, report = AutoModel.from_pretrained(
            source,
            config=shape,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
            **where,
        )
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"the encoder {_named(config)} cannot be loaded: {reason}; check its name and the connection"
        ) from None
    _require_all_weights(config, report["missing_keys"])
    digests = _digests(config, folder)
    _require_weights(config, digests)
    return _frozen(config, tokenizer, model, digests, max_tokens, device)


def _named(config: EncoderConfig) -> str:
    return f"entry {config.entry}" if config.entry is not None else f"{config.huggingface} at {config.revision}"


def _cut(shape: Any, layers: int | None) -> None:
    if layers is None:
        return
    if layers > shape.num_hidden_layers:
        raise ConfigError(f"encoder.layers is {layers}, allowed is 1 to {shape.num_hidden_layers} for this encoder")
    shape.num_hidden_layers = layers


def _require_all_weights(config: EncoderConfig, missing: Iterable[str]) -> None:
    """The library fills what the file lacks with random numbers; only the pooler, which is not asked, may be so."""
    needed = sorted(name for name in missing if not name.startswith("pooler."))
    if needed:
        raise DataError(
            f"{WEIGHTS} of the encoder {_named(config)}: no tensor {needed[0]} ({len(needed)} are missing), allowed is "
            "one for each of the model's weights; choose another encoder or revision"
        )


def _frozen(
    config: EncoderConfig, tokenizer: Any, model: Any, digests: dict[str, str], max_tokens: int, device: str
) -> Encoder:
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
        "files": digests,
    }
    model.eval().requires_grad_(False).to(device)
    return Encoder(tokenizer, model, int(model.config.hidden_size), config.layer, states, max_tokens, device, facts)


def _digests(config: EncoderConfig, folder: Path | None) -> dict[str, str]:
    """sha256 by name of the files that decide what the encoder is; those of the hub lie in its cache by now."""
    from huggingface_hub import try_to_load_from_cache

    paths: dict[str, Path] = {}
    for name in NEEDED:
        found: Any = folder / name if folder is not None else None
        if folder is None:
            found = try_to_load_from_cache(str(config.huggingface), name, revision=config.revision)
        # the hub's answer is an object where it knows that there is no such file
        if isinstance(found, str | Path):
            paths[name] = Path(found)
    return {name: sha256_file(path) for name, path in paths.items()}


def _require_weights(config: EncoderConfig, digests: dict[str, str]) -> None:
    came = digests.get(WEIGHTS, "none, since its weights are several files")
    if config.weights_sha256 not in (None, came):
        raise DataError(
            f"{WEIGHTS} of {config.huggingface}: got sha256 {came}, allowed is {config.weights_sha256} "
            "(encoder.weights_sha256); correct the configuration, or clear the hub's cache and fetch again"
        )
