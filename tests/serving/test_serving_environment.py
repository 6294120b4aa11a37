"""Making the serving environment, finding the bundle, and the command that starts the server."""

import sys
from pathlib import Path

import pytest
from small_bundle import build

from components.errors import BundleError, ServingError, UsageError
from pipelines import serving


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose serving package needs nothing that is not in the folder itself."""
    package = tmp_path / "deploy" / "serving"
    (package / "quintet_serving").mkdir(parents=True)
    (package / "quintet_serving" / "__init__.py").write_text("VALUE = 1\n")
    (package / "requirements.txt").write_text("# nothing\n")
    (package / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    return tmp_path


class Installer:
    """Takes the place of the commands, records them, and makes what `python -m venv` would make."""

    def __init__(self, fail_at: str | None = None):
        self.commands: list[list[str]] = []
        self.fail_at = fail_at

    def __call__(self, command: list[str], failure: str, report: serving.Report, packages: int = 0) -> None:
        self.commands.append(command)
        if self.fail_at is not None and self.fail_at in command:
            raise KeyboardInterrupt
        if "venv" in command:
            python = Path(command[-1]) / serving.PYTHON
            python.parent.mkdir(parents=True, exist_ok=True)
            python.write_text("")


def test_made_once_and_again_when_its_sources_change(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installer = Installer()
    monkeypatch.setattr(serving, "_run", installer)
    said: list[str] = []
    python = serving.ensure_serving_environment(checkout, said.append)
    assert python == checkout / ".quintet/serving-venv" / serving.PYTHON
    assert python.is_file()
    assert [command for command in installer.commands if "-r" in command]
    assert "serving environment" in said[0]

    installer.commands.clear()
    serving.ensure_serving_environment(checkout, said.append)
    assert not installer.commands
    for name in ("requirements.txt", "quintet_serving/__init__.py", "pyproject.toml"):
        changed = checkout / "deploy/serving" / name
        changed.write_text(changed.read_text() + "# changed\n")
        serving.ensure_serving_environment(checkout, said.append)
        assert installer.commands, f"{name} changed and nothing was made"
        # the packages below our own are only installed again when they change.
        assert any("-r" in command for command in installer.commands) == (name == "requirements.txt")
        installer.commands.clear()
    assert [path.name for path in (checkout / ".quintet").iterdir() if path.is_dir()] == ["serving-venv"]


def test_an_interrupted_renewal_is_not_taken_for_whole(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_run", Installer())
    serving.ensure_serving_environment(checkout, lambda _: None)
    source = checkout / "deploy/serving/quintet_serving/__init__.py"
    before = source.read_text()
    source.write_text("VALUE = 2\n")
    monkeypatch.setattr(serving, "_run", Installer(fail_at="--no-deps"))
    with pytest.raises(KeyboardInterrupt):
        serving.ensure_serving_environment(checkout, lambda _: None)
    # even when the change is taken back, nobody knows what the interrupted installation left.
    source.write_text(before)
    whole = Installer()
    monkeypatch.setattr(serving, "_run", whole)
    serving.ensure_serving_environment(checkout, lambda _: None)
    assert any("-r" in command for command in whole.commands)


@pytest.mark.parametrize("step", ["venv", "-r", "--no-deps", "check"])
def test_an_interrupted_installation_is_done_again(step: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_run", Installer(fail_at=step))
    with pytest.raises(KeyboardInterrupt):
        serving.ensure_serving_environment(checkout, lambda _: None)
    assert not (checkout / ".quintet/serving-venv").exists()
    whole = Installer()
    monkeypatch.setattr(serving, "_run", whole)
    assert serving.ensure_serving_environment(checkout, lambda _: None).is_file()
    assert whole.commands


def test_what_a_kill_left_behind_is_neither_used_nor_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = checkout / ".quintet" / "serving-venv.killed.part"
    (left / "bin").mkdir(parents=True)
    half = checkout / ".quintet" / "serving-venv" / "bin"
    half.mkdir(parents=True)
    (half / "python").write_text("")
    installer = Installer()
    monkeypatch.setattr(serving, "_run", installer)
    serving.ensure_serving_environment(checkout, lambda _: None)
    assert installer.commands
    assert not left.exists()


def test_a_failed_installation_says_what_pip_said_and_keeps_the_old_environment(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(serving, "_run", Installer())
        python = serving.ensure_serving_environment(checkout, lambda _: None)
    (checkout / "deploy/serving/requirements.txt").write_text("./absent-package.whl\n")
    # a real pip this time; a file that is not there needs no network to fail.
    with pytest.raises(ServingError, match=r"cannot be installed \(ERROR.*absent-package"):
        serving.ensure_serving_environment(checkout, lambda _: None)
    assert python.is_file()
    assert [path.name for path in (checkout / ".quintet").iterdir() if path.is_dir()] == ["serving-venv"]


def test_a_checkout_without_the_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match=r"pyproject\.toml is missing"):
        serving.ensure_serving_environment(tmp_path, lambda _: None)


def test_progress_is_reported_package_by_package() -> None:
    said: list[str] = []
    script = "print('Collecting numpy==2.4.6'); print('Processing /somewhere/x-1.whl'); print('Installing collected x')"
    serving._run([sys.executable, "-c", script], "no", said.append, 2)
    assert said == ["  1 of 2: numpy==2.4.6", "  2 of 2: x-1.whl", "  installing"]


def test_the_exported_bundle_and_the_registered_one(tmp_path: Path) -> None:
    exported = tmp_path / "outputs/export/orbital-kind/bundle"
    build(exported)
    assert serving.obtain_bundle(tmp_path, "orbital-kind") == exported
    fetched: list[tuple[str, str]] = []

    def fetch(name: str, alias: str, folder: Path) -> None:
        fetched.append((name, alias))
        build(folder)

    folder = serving.obtain_bundle(tmp_path, "orbital-kind", "champion", fetch)
    assert folder == tmp_path / ".quintet/bundles/orbital-kind@champion"
    assert fetched == [("orbital-kind", "champion")]


def test_bundles_that_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="run the export stage"):
        serving.obtain_bundle(tmp_path, "orbital-kind")
    with pytest.raises(UsageError, match="registry"):
        serving.obtain_bundle(tmp_path, "orbital-kind", "champion")
    for name in ("../secret", "a/b", ""):
        with pytest.raises(UsageError, match="no name"):
            serving.obtain_bundle(tmp_path, name)
    build(tmp_path / "outputs/export/orbital-regime/bundle", name="orbital-kind")
    with pytest.raises(UsageError, match="holds the bundle 'orbital-kind'"):
        serving.obtain_bundle(tmp_path, "orbital-regime")
    exported = tmp_path / "outputs/export/orbital-kind/bundle"
    build(exported)
    (exported / "labels.json").write_text("[]")
    with pytest.raises(BundleError, match=r"labels\.json"):
        serving.obtain_bundle(tmp_path, "orbital-kind")


def test_the_command_names_every_choice(tmp_path: Path) -> None:
    command = serving.serving_command(Path("/venv/python"), tmp_path, "127.0.0.1", {"http": 9000}, "cpu")
    assert command[:4] == ["/venv/python", "-I", "-m", "quintet_serving"]
    assert {"--host=127.0.0.1", "--http-port=9000", "--grpc-port=8081", "--metrics-port=8082"} <= set(command)
    with pytest.raises(UsageError, match="70000"):
        serving.serving_command(Path("p"), tmp_path, "h", {"http": 70000}, "cpu")
    with pytest.raises(UsageError, match="'https'"):
        serving.serving_command(Path("p"), tmp_path, "h", {"https": 1}, "cpu")


def test_serving_replaces_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "outputs/export/orbital-kind/bundle")
    python = tmp_path / "python"
    replaced: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(serving, "ensure_serving_environment", lambda root, report: python)
    monkeypatch.setattr("os.execv", lambda path, command: replaced.append((path, command)))
    serving.serve(tmp_path, "orbital-kind", ports={"http": 9000})
    [(path, command)] = replaced
    assert path == command[0] == str(python)
    assert str(tmp_path / "outputs/export/orbital-kind/bundle") in command
