"""A fresh checkout with an initialised store for each test; the migration itself runs once a session."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from components.tracking import store


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(store.URI_VARIABLE, raising=False)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that `initialise` made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(store.URI_VARIABLE, raising=False)
        root = tmp_path_factory.mktemp("migrated")
        store.initialise(root)
    return root / "mlflow" / "mlflow.db"


@pytest.fixture
def root(tmp_path: Path, migrated: Path) -> Path:
    checkout = tmp_path / "check out é"
    (checkout / "mlflow").mkdir(parents=True)
    shutil.copy(migrated, checkout / "mlflow" / "mlflow.db")
    return checkout
