"""Experiment tracking: the only package that talks to MLflow, which is a view of the outputs that can be rebuilt.

Importing this package does not import mlflow.
"""

from components.tracking.live import LiveRun
from components.tracking.records import (
    BUNDLE_TAG,
    CONFIG_NAME,
    HISTORY_NAME,
    RECORD_NAME,
    DatasetUse,
    RunRecord,
    bundle_digest,
    new_record,
    read_records,
    short_parameters,
    write_history,
    write_record,
)
from components.tracking.registry import fetch_bundle
from components.tracking.runs import RunIdentity
from components.tracking.store import initialise, tracking_uri
from components.tracking.sweep import sweep
from components.tracking.sync import SyncReport, synchronise

__all__ = [
    "BUNDLE_TAG",
    "CONFIG_NAME",
    "HISTORY_NAME",
    "RECORD_NAME",
    "DatasetUse",
    "LiveRun",
    "RunIdentity",
    "RunRecord",
    "SyncReport",
    "bundle_digest",
    "fetch_bundle",
    "initialise",
    "new_record",
    "read_records",
    "short_parameters",
    "sweep",
    "synchronise",
    "tracking_uri",
    "write_history",
    "write_record",
]
