import os
import re
import subprocess
import tomllib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Which extras each lock has to hold.
DEVELOPMENT = ("stripe", "anthropic", "postgres", "evidence", "testing", "dev")
LOCKS = {"requirements-dev.lock": DEVELOPMENT, "requirements-bench.lock": (*DEVELOPMENT, "temporal", "bench")}

# Built from pieces, so that this file does not hold what it looks for.
INDEX_HOSTS = tuple(".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org")))
LOCAL_PATH = re.compile(r"(?<![\w.$}~-])/(?:home|root|Users|work|tmp/w)/")
LOCKED = re.compile(r"[a-z0-9._-]+==[^\s;]+( ; [^\\]+?)?( --hash=sha256:[0-9a-f]{64})+")


def _files() -> list[Path]:
    """Every file that is tracked, or would be with the next `git add`."""
    # A hook's own GIT_* variables would point git at another index.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    listing = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _lines_matching(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def _locked_requirements(lock: str) -> list[str]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / lock).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [re.sub(r"\s+", " ", line).strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def _names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ;]", line, maxsplit=1)[0] for line in requirements}


def test_no_file_names_a_package_index() -> None:
    """Where packages come from is the user's own configuration: no file names an index."""
    assert _lines_matching(re.compile("|".join(map(re.escape, INDEX_HOSTS)))) == []


def test_no_file_holds_a_path_of_somebodys_machine() -> None:
    """No file holds an absolute path of a home or working folder."""
    assert _lines_matching(LOCAL_PATH) == []


@pytest.mark.parametrize("folder", ["home", "root", "work"])
def test_the_check_for_paths_sees_one(folder: str) -> None:
    """The check above would see such a path, in code, in prose and in an option."""
    path = f"/{folder}/someone"
    assert all(LOCAL_PATH.search(line) for line in (f'open("{path}")', f"see {path}.", f"--dir={path}", f"file://{path}"))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_requirement_has_its_version_and_hashes(lock: str) -> None:
    """A lock is requirements with hashes, and nothing else: no option, no address."""
    requirements = _locked_requirements(lock)
    assert requirements
    assert [line for line in requirements if not LOCKED.fullmatch(line)] == []


@pytest.mark.parametrize(("lock", "extras"), LOCKS.items())
def test_a_lock_holds_every_direct_dependency(lock: str, extras: tuple[str, ...]) -> None:
    """What pyproject.toml asks for in development, and for the benchmarks, is in its lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    assert _names(asked) - {project["name"]} <= _names(_locked_requirements(lock))


def test_the_locks_agree() -> None:
    """What both hold is of one version, because the one is installed over the other."""
    development, bench = (dict(line.split(" ")[0].split("==") for line in _locked_requirements(lock)) for lock in LOCKS)
    assert development.items() <= bench.items()


PAGES = sorted((ROOT / "results").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_results_says_which_command_made_it(page: Path) -> None:
    """It names a command, and all the commands that it names are there."""
    text = page.read_text(encoding="utf-8")
    modules = re.findall(r"`python -m ([\w.]+)", text)
    targets = re.findall(r"`make ([\w-]+)", text)
    assert modules or targets
    assert [module for module in modules if find_spec(module) is None] == []
    made = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(targets) <= set(made)
