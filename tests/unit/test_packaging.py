import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"anthropic", "flask", "httpx", "httpx2", "psycopg", "requests", "starlette", "stripe", "temporalio"}


def _top_level_modules_after(statement: str) -> set[str]:
    script = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel, built from this tree by the locked build backend."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_import_interlock_is_light() -> None:
    """Importing interlock loads no provider, no engine, no database driver and no web framework."""
    assert "interlock" in _top_level_modules_after("import interlock")
    assert not HEAVY & _top_level_modules_after("import interlock")


def test_the_check_for_lightness_sees_a_heavy_import() -> None:
    """The check above would see a provider's SDK, were one loaded."""
    assert "stripe" in _top_level_modules_after("import interlock, stripe")


def test_a_journal_without_its_driver_says_what_to_install() -> None:
    """Where psycopg or its libpq is missing, a PostgreSQL URL is an error of ours."""
    script = """
import sys
sys.modules["psycopg"] = None
import interlock.errors
try:
    interlock.Gate.open("postgresql://127.0.0.1/x")
except interlock.errors.InterlockError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "extra `postgres`" in done.stdout


def test_version_is_the_distributions() -> None:
    """`interlock.__version__` is what the installed distribution says."""
    script = "import interlock, importlib.metadata as m; assert interlock.__version__ == m.version('interlock-gate')"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_wheel_contains_only_the_package(wheel: zipfile.ZipFile) -> None:
    """A wheel puts `interlock` on a user's path and nothing else."""
    top = {name.partition("/")[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"interlock"}


def test_wheel_contains_the_whole_package(wheel: zipfile.ZipFile) -> None:
    """Every file of the package is in the wheel: modules, schemas, and the marker that it is typed."""
    package = (path for path in (ROOT / "interlock").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    shipped = {name for name in wheel.namelist() if name.startswith("interlock/")}
    assert shipped == {path.relative_to(ROOT).as_posix() for path in package}
    assert "interlock/py.typed" in shipped


def test_wheel_carries_license_and_command(wheel: zipfile.ZipFile) -> None:
    """A wheel carries its license, and installs the command `interlock`."""
    (entry_points,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel.namelist())
    assert "interlock = interlock.cli:main" in wheel.read(entry_points).decode().splitlines()
