"""The stages: thin functions that read configuration, call the parts and write one output folder each."""

from components.stages.execution import run_stage

__all__ = ["run_stage"]
