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
from components.tracking.runs import Placement, RunIdentity
from components.tracking.store import initialise, tracking_uri
from components.tracking.studies import StudyTracked, child_placement, end_study, open_study, sync_study
from components.tracking.sweep import sweep
from components.tracking.sync import SyncReport, synchronise

__all__ = [
    "BUNDLE_TAG",
    "CONFIG_NAME",
    "HISTORY_NAME",
    "RECORD_NAME",
    "DatasetUse",
    "LiveRun",
    "Placement",
    "RunIdentity",
    "RunRecord",
    "StudyTracked",
    "SyncReport",
    "bundle_digest",
    "child_placement",
    "end_study",
    "fetch_bundle",
    "initialise",
    "new_record",
    "open_study",
    "read_records",
    "short_parameters",
    "sweep",
    "sync_study",
    "synchronise",
    "tracking_uri",
    "write_history",
    "write_record",
]
