"""Live runs: streamed once, resumed by adding only, never left RUNNING, and never in training's way."""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tracked

from components.errors import NonFiniteError, RecordError
from components.tracking import LiveRun, RunIdentity, runs, store, sweep, synchronise

REPOSITORY = Path(__file__).resolve().parents[2]

# logs a few epochs, says so, and waits to be killed.
VICTIM = """
import sys, time
from pathlib import Path
from components.tracking import LiveRun, RunIdentity
import json
live = LiveRun(Path(sys.argv[1]), RunIdentity(**json.loads(sys.argv[2])), {"seed": 7}, flush_seconds=0.0)
for step in (1, 2, 3):
    live.log(step, {"train/loss": 2.0 / step, "validation/loss": 1.0 / step})
print("logged", flush=True)
time.sleep(300)
"""


def identity(seed: str = "a") -> RunIdentity:
    return RunIdentity(**tracked.identity(seed))


def stored(root: Path, live: LiveRun) -> Any:
    assert live.run_id is not None
    return store.open_client(root).get_run(live.run_id)


def history(root: Path, live: LiveRun, key: str) -> list[tuple[int, float]]:
    assert live.run_id is not None
    return sorted((point.step, point.value) for point in store.open_client(root).get_metric_history(live.run_id, key))


def test_success(root: Path) -> None:
    with LiveRun(root, identity(), {"seed": 7, "rate": 0.5}) as live:
        for step, metrics in tracked.history():
            live.log(step, metrics)
        running = stored(root, live)
        assert running.info.status == "RUNNING"
        assert running.data.tags["quintet.pid"] == str(os.getpid())
        assert running.data.tags["quintet.digest"] == tracked.digest("a")
    run = stored(root, live)
    assert (run.info.status, run.info.run_name) == ("FINISHED", live.identity.name)
    assert run.data.params == {"seed": "7", "rate": "0.5"}
    assert history(root, live, "train/loss") == [(step, values["train/loss"]) for step, values in tracked.history()]
    live.close("FAILED")
    assert stored(root, live).info.status == "FINISHED"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("bad\nlong"), "FAILED"), (KeyboardInterrupt(), "KILLED"), (SystemExit(1), "KILLED")],
)
def test_exception_ends_the_run_and_goes_on(root: Path, error: BaseException, status: str) -> None:
    live = LiveRun(root, identity())

    def train() -> None:
        with live:
            live.log(1, {"train/loss": 1.0})
            raise error

    with pytest.raises(type(error)):
        train()
    run = stored(root, live)
    assert run.info.status == status
    assert run.data.tags["quintet.end_reason"].startswith(type(error).__name__)
    assert history(root, live, "train/loss") == [(1, 1.0)]


def kill_victim(root: Path) -> None:
    import json

    command = [sys.executable, "-c", VICTIM, str(root), json.dumps(tracked.identity())]
    victim = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "logged\n"
    victim.send_signal(signal.SIGKILL)
    victim.wait(timeout=30)


def test_kill_then_sweep_then_resume(root: Path) -> None:
    kill_victim(root)
    client = store.open_client(root)
    experiment = store.experiment_id(client, root, tracked.METHOD)
    (orphan,) = client.search_runs([experiment])
    assert orphan.info.status == "RUNNING"
    assert sweep(root) == (identity().name,)
    swept = client.get_run(orphan.info.run_id)
    assert swept.info.status == "FAILED"
    assert swept.data.tags["quintet.end_reason"].startswith("KILLED")
    assert sweep(root) == ()
    # the resumed training replays the epoch it was killed in, as a checkpoint makes it do.
    with LiveRun(root, identity(), {"seed": 7}) as live:
        for step, metrics in tracked.history()[1:]:
            live.log(step, metrics)
    assert live.run_id == orphan.info.run_id
    run = stored(root, live)
    assert run.info.status == "FINISHED"
    assert "quintet.end_reason" not in run.data.tags
    expected = [(step, values["train/loss"]) for step, values in tracked.history()]
    assert history(root, live, "train/loss") == expected


def test_killed_run_is_reopened_without_a_sweep_and_repaired_by_synchronising(root: Path) -> None:
    kill_victim(root)
    tracked.write_experiment(root)
    report = synchronise(root)
    assert report.swept == report.updated == (identity().name,)
    with LiveRun(root, identity()) as live:
        pass
    assert stored(root, live).info.status == "FINISHED"
    expected = [(step, values["train/loss"]) for step, values in tracked.history()]
    assert history(root, live, "train/loss") == expected
    assert synchronise(root).unchanged


def test_sweep_leaves_the_living_and_the_far_away(root: Path) -> None:
    near, far = (LiveRun(root, identity(seed), system_metrics=False) for seed in ("a", "b"))
    assert near.run_id is not None
    assert far.run_id is not None
    client = store.open_client(root)
    client.set_tag(far.run_id, runs.HOST_TAG, "another.host")
    client.set_tag(far.run_id, runs.PID_CREATED_TAG, "1.0")
    assert sweep(root) == ()
    # the same process id given to a later process is not the owner.
    client.set_tag(near.run_id, runs.PID_CREATED_TAG, "1.0")
    assert sweep(root) == (near.identity.name,)
    assert client.get_run(far.run_id).info.status == "RUNNING"


def test_synchronising_leaves_a_run_in_progress_alone(root: Path) -> None:
    with LiveRun(root, identity()) as live:
        assert live.run_id is not None
        store.open_client(root).set_tag(live.run_id, runs.HOST_TAG, "another.host")
        tracked.write_experiment(root)
        report = synchronise(root)
        assert report.busy == (live.identity.name,)
        assert not report.registered
        assert stored(root, live).data.metrics == {}


def test_second_training_of_a_running_digest_does_not_mix_in(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LiveRun(root, identity()) as first:
        assert first.run_id is not None
        store.open_client(root).set_tag(first.run_id, runs.HOST_TAG, "another.host")
        with LiveRun(root, identity()) as second:
            second.log(1, {"train/loss": 9.0})
        assert not second.tracking
        assert "is filling the run" in caplog.text
        first.log(1, {"train/loss": 1.0})
    assert history(root, first, "train/loss") == [(1, 1.0)]


def test_lost_store_warns_once_and_training_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from mlflow import MlflowClient

    def broken(*_: object, **__: object) -> None:
        raise OSError("database is locked")

    with caplog.at_level(logging.WARNING), LiveRun(root, identity(), flush_points=1) as live:
        live.log(1, {"train/loss": 1.0})
        with monkeypatch.context() as patch:
            patch.setattr(MlflowClient, "log_batch", broken)
            for step in range(2, 6):
                live.log(step, {"train/loss": 1.0 / step})
        assert not live.tracking
    warnings = [record for record in caplog.records if record.name == "components.tracking.live"]
    assert len(warnings) == 1
    assert "database is locked" in warnings[0].getMessage()
    # it is still ended, so nothing stays RUNNING.
    assert stored(root, live).info.status == "FINISHED"


def test_unreachable_store_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(store.URI_VARIABLE, "file:///tmp/mlruns")
    with LiveRun(tmp_path, identity()) as live:
        live.log(1, {"train/loss": 1.0})
    assert live.run_id is None
    assert caplog.text.count("no longer sent") == 1


def test_bad_metric_is_the_trainings_fault_with_and_without_a_store(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveRun(root, identity()) as live, pytest.raises(NonFiniteError, match="step 4"):
        live.log(4, {"train/loss": math.nan})
    monkeypatch.setenv(store.URI_VARIABLE, "mlruns")
    with LiveRun(root, identity()) as live, pytest.raises(RecordError, match="metric name"):
        live.log(4, {"train/loss@1": 1.0})


def test_ten_thousand_points_need_few_requests(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    requests = []
    original = MlflowClient.log_batch

    def counted(self: MlflowClient, run_id: str, metrics: Any = (), **others: Any) -> Any:
        requests.append(len(metrics))
        return original(self, run_id, metrics=metrics, **others)

    monkeypatch.setattr(MlflowClient, "log_batch", counted)
    steps = [(step, {"train/loss": 1.0 / (step + 1), "train/rate": float(step)}) for step in range(5000)]
    with LiveRun(root, identity(), system_metrics=False, flush_points=1000, flush_seconds=3600.0) as live:
        for step, metrics in steps[:2500]:
            live.log(step, metrics)
    assert [size for size in requests if size] == [1000] * 5
    # what was not streamed, synchronising adds, again in whole batches and exactly once.
    requests.clear()
    tracked.write_train(root)
    folder = tracked.output(root, "train")
    from components.tracking import new_record, write_history, write_record

    record = new_record(
        **tracked.identity(), stage="train", artifacts=["config.json"], history=write_history(folder, steps)
    )
    write_record(folder, record)
    synchronise(root)
    assert [size for size in requests if size] == [1000] * 5
    assert history(root, live, "train/rate") == [(step, float(step)) for step in range(5000)]


def load(root: Path, live: LiveRun) -> dict[str, float]:
    return {key: value for key, value in stored(root, live).data.metrics.items() if key.startswith("system/")}


def test_load_of_the_machine_is_sampled_even_in_a_short_run(root: Path) -> None:
    with LiveRun(root, identity()) as live:
        live.log(1, {"train/loss": 1.0})
    sampled = load(root, live)
    assert 0 <= sampled["system/cpu_utilization_percentage"] <= 100
    assert 0 < sampled["system/system_memory_usage_percentage"] <= 100
    steps = [step for step, _ in history(root, live, "system/system_memory_usage_megabytes")]
    assert steps == list(range(len(steps)))
    # taken up again, it goes on behind what there is; and synchronising leaves it as it is.
    with LiveRun(root, identity()) as again:
        pass
    more = [step for step, _ in history(root, again, "system/system_memory_usage_megabytes")]
    assert len(more) > len(steps)
    assert more == list(range(len(more)))
    tracked.write_train(root)
    synchronise(root)
    assert synchronise(root).unchanged
    assert load(root, again).keys() == sampled.keys()


def test_monitors_of_two_threads_keep_to_their_runs_and_end(root: Path) -> None:
    import mlflow

    address = mlflow.get_tracking_uri()
    barrier = threading.Barrier(2)
    before = set(threading.enumerate())

    def train(seed: str) -> LiveRun:
        with LiveRun(root, identity(seed)) as live:
            live.log(1, {"train/loss": 1.0})
            barrier.wait(timeout=60)
        return live

    with ThreadPoolExecutor(2) as pool:
        lives = list(pool.map(train, ("a", "b")))
    assert lives[0].run_id != lives[1].run_id
    for live in lives:
        steps = [step for step, _ in history(root, live, "system/cpu_utilization_percentage")]
        assert steps
        # a machine in much use may need longer than one interval for all this.
        assert steps == list(range(len(steps)))
    assert set(threading.enumerate()) <= before
    # neither the global address nor the active run was touched, and no run is left over.
    assert mlflow.get_tracking_uri() == address
    assert mlflow.active_run() is None
    client = store.open_client(root)
    found = client.search_runs([store.experiment_id(client, root, tracked.METHOD)])
    assert sorted(run.info.status for run in found) == ["FINISHED", "FINISHED"]


@pytest.mark.parametrize("works_at_first", [False, True], ids=["never", "for-a-while"])
def test_machine_that_cannot_be_sampled_costs_only_the_samples(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], works_at_first: bool
) -> None:
    import psutil

    calls = []
    original = psutil.virtual_memory

    def broken() -> Any:
        calls.append(1)
        if works_at_first and len(calls) == 1:
            return original()
        raise OSError("no /proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", broken)
    with LiveRun(root, identity()) as live:
        live.log(1, {"train/loss": 1.0})
        assert live.tracking
    assert calls
    assert stored(root, live).info.status == "FINISHED"
    assert history(root, live, "train/loss") == [(1, 1.0)]
    assert not load(root, live)
    assert "meminfo" not in capfd.readouterr().err
