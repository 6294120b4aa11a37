"""gate_features: the features are of these rows, finite and varied, and what the encoder gives for a row alone."""

from components.config import Name, Strict
from components.datasets.features.config import FeatureGateOptions, FeatureOptions
from components.stages.execution import Context
from components.stages.gating import conclude_gate


class GatedFeaturesConfig(Strict):
    """All of a configuration of features, since the gate computes some of them again."""

    dataset: Name
    compute: FeatureOptions
    gate: FeatureGateOptions = FeatureGateOptions()


def run(context: Context) -> None:
    from components.datasets.features.computing import read_texts
    from components.datasets.features.encoder import load_encoder
    from components.quality.features.gate import gate_features
    from components.stages.features import encoder_folder

    config = context.section(GatedFeaturesConfig, f"features.{context.name}")
    options = config.compute
    texts = read_texts(context.input(f"data/prepared/{config.dataset}"))
    subject = f"data/features/{context.name}"
    # on the CPU whatever computed them: another path to the same numbers
    encoder = load_encoder(
        options.encoder, encoder_folder(context, options.encoder), options.max_tokens, "cpu", options.threads
    )
    report = gate_features(
        context.input(subject),
        texts,
        encoder.facts,
        config.gate,
        lambda row: encoder.encode([texts.first[row]], [texts.second[row]] if texts.second is not None else None)[0],
        subject=subject,
        docs_folder=context.info / "data_docs" / f"features-{context.name}",
    )
    conclude_gate(context, report)
