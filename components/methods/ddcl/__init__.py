"""DDCL-Attention (arXiv 2604.03850): a prototype readout whose loss is exactly reconstruction plus diversity."""

from components.methods.ddcl.attention import DDCLAttention, DDCLOutput
from components.methods.ddcl.hierarchy import HierarchicalDDCL, HierarchyOutput
from components.methods.ddcl.initialisation import INITIALISATIONS, kmeans_plus_plus, random_tokens, standard_normal
from components.methods.ddcl.metrics import (
    CodebookUsage,
    Separation,
    codebook_usage,
    diversity_gradient,
    prototype_separation,
    usage_counts,
)
from components.methods.ddcl.optimisation import PRACTICAL_TIMESCALE_RATIOS, parameter_groups
from components.methods.ddcl.quantiser import SoftVectorQuantizer
from components.methods.ddcl.readout import pool
from components.methods.ddcl.schedules import (
    SCHEDULES,
    ConstantTemperature,
    CosineTemperature,
    ExponentialTemperature,
    LinearTemperature,
    TemperatureSchedule,
    temperature_schedule,
)
from components.methods.ddcl.stability import (
    CriticalTemperatures,
    critical_temperatures,
    free_energy,
    largest_variance,
    lyapunov,
    predicts_collapse,
    stable_temperature,
)

__all__ = [
    "INITIALISATIONS",
    "PRACTICAL_TIMESCALE_RATIOS",
    "SCHEDULES",
    "CodebookUsage",
    "ConstantTemperature",
    "CosineTemperature",
    "CriticalTemperatures",
    "DDCLAttention",
    "DDCLOutput",
    "ExponentialTemperature",
    "HierarchicalDDCL",
    "HierarchyOutput",
    "LinearTemperature",
    "Separation",
    "SoftVectorQuantizer",
    "TemperatureSchedule",
    "codebook_usage",
    "critical_temperatures",
    "diversity_gradient",
    "free_energy",
    "kmeans_plus_plus",
    "largest_variance",
    "lyapunov",
    "parameter_groups",
    "pool",
    "predicts_collapse",
    "prototype_separation",
    "random_tokens",
    "stable_temperature",
    "standard_normal",
    "temperature_schedule",
    "usage_counts",
]
