"""A classifier that sees its input through a readout alone: scaler, encoder, readout, linear head."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from components.methods.ddcl.encoders import TokenEncoder
from components.methods.ddcl.numerics import every_token
from components.methods.ddcl.scaler import FeatureScaler
from components.methods.interfaces.readout import Readout, ReadoutOutput

Tokens = Float[Tensor, "batch tokens features"]
Mask = Bool[Tensor, "batch tokens"]


class ClassifierOutput(NamedTuple):
    """`logits` (B, C); `readout`: what the readout made of the sequences."""

    logits: Tensor
    readout: ReadoutOutput


def all_tokens(tokens: Tokens, mask: Mask) -> tuple[Tensor, Tensor]:
    """Every token as it is."""
    return tokens, mask


def mean_token(tokens: Tokens, mask: Mask) -> tuple[Tensor, Tensor]:
    """One token a sequence, the mean of its valid ones; none where it has none."""
    mean = torch.where(mask.unsqueeze(-1), tokens, 0).sum(dim=1, keepdim=True)
    return mean / mask.sum(dim=1).clamp_min(1)[:, None, None], mask.any(dim=1, keepdim=True)


def first_token(tokens: Tokens, mask: Mask) -> tuple[Tensor, Tensor]:
    """One token a sequence, its first: the class token of encoders that have one."""
    return tokens[:, :1], mask[:, :1]


# What a readout gets to see of a sequence: its tokens, or one vector, which makes it cluster whole documents.
VIEWS: Mapping[str, Callable[[Tokens, Mask], tuple[Tensor, Tensor]]] = {
    "tokens": all_tokens,
    "mean": mean_token,
    "first": first_token,
}


class ReadoutClassifier(nn.Module):
    """Classify sequences of tokens by what a readout makes of them. A row of a table is a sequence of one token.

    Shapes: tokens (B, T, F) in physical units, mask (B, T) with True for real tokens; logits (B, C).
    A sequence without a real token is read as zeros, and so has the head's bias as its logits.

    view: one of `VIEWS`, taken of the scaled features before they are encoded. Raises ValueError for one that is none.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        encoder: TokenEncoder,
        readout: Readout,
        *,
        view: str = "tokens",
    ):
        super().__init__()
        if view not in VIEWS:
            raise ValueError(f"view is {view!r}; choose one of {', '.join(sorted(VIEWS))}")
        self.scaler = FeatureScaler(num_features)
        self.view = view
        self.encoder = encoder
        self.readout = readout
        self.head = nn.Linear(readout.width, num_classes)

    def scaled(self, tokens: Tokens, mask: Mask | None = None) -> tuple[Tensor, Tensor]:
        """Scaled features as the encoder sees them, and their mask.

        What stands at masked places is replaced first: padding may hold anything, NaN included.
        """
        valid = every_token(tokens) if mask is None else mask
        values = self.scaler(torch.where(valid.unsqueeze(-1), tokens, torch.zeros_like(tokens)))
        return VIEWS[self.view](values, valid)

    def encode(self, tokens: Tokens, mask: Mask | None = None) -> tuple[Tensor, Tensor]:
        """Encoded tokens (B, T', D) as the readout sees them, and their mask (B, T')."""
        values, valid = self.scaled(tokens, mask)
        return self.encoder(values, valid), valid

    def forward(self, tokens: Tokens, mask: Mask | None = None) -> ClassifierOutput:
        output = self.readout(*self.encode(tokens, mask))
        return ClassifierOutput(self.head(output.vector), output)


class ServableClassifier(nn.Module):
    """The classifier as it is deployed: plain tensors in and out, all that a client may want in one pass.

    Inputs: tokens (B, T, F), mask (B, T). Outputs: logits (B, C), probabilities (B, C) = softmax of the logits, and
    assignments (B, K), the mixture of prototypes that explains them.
    """

    INPUTS = ("tokens", "mask")
    OUTPUTS = ("logits", "probabilities", "assignments")

    def __init__(self, classifier: ReadoutClassifier):
        super().__init__()
        if classifier.readout.num_parts == 0:
            raise ValueError(
                f"{type(classifier.readout).__name__} explains nothing by parts, and what is served does: deploy a "
                "readout with prototypes"
            )
        self.classifier = classifier

    def forward(self, tokens: Tokens, mask: Mask) -> tuple[Tensor, Tensor, Tensor]:
        output = self.classifier(tokens, mask)
        return output.logits, output.logits.softmax(dim=-1), output.readout.mixture
