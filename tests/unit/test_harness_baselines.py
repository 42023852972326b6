"""The hand-written columns are fair: their source is fixed, and they stand on their own."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

COLUMNS = Path(__file__).resolve().parents[2] / "harness" / "columns"

REVIEWED = {
    "by_hand.py": "bed2a28ee39560e873750d1106c375e2121879ebc194a47ae9b621b85a3b982d",
    "checked.py": "daa49513fa66ae7ee39e54b67b0e0d03d9f94595c68aa925b4f53f4c0877ac74",
    "checked_with_our_rule.py": "96a31713a5a624a90affa7982ba84a527e8bd1b78f143c0db9d3ab027e0dd604",
    "standard.py": "9e16461b23b5d2aae1d3a7cbc153b583f1c43030bc5e1efb1cef01f37a448da5",
    "temporal/by_hand.py": "04e3991f9caec30b7aed3d477fce2d9743d3c1f215bf6af504e6b111ec4971a3",
    "temporal/checked.py": "e824a5c5fbc8aacca2ac29a7a16921aba6e00ba682bf2814a8df15c68ab7c13f",
    "temporal/heartbeats.py": "da0046f50a5a6e83a0dda2ce72f0bd2f8b121002db0f5257f57d43a8162d9c2d",
    "temporal/options.py": "44d64f8bf4fc1660a93a4b084632feb60c60651d554771b02b4bac4bfbdd04bd",
    "temporal/plain.py": "4ba46386d5b6b95bb6268352c66a63e73e0fb9c27bd28892a10f84ee79449cb6",
    "temporal/workflow.py": "cea3247183440c845c3c1a1b3705f91f5ede65aa77dafaade6541487c6f821f1",
}
"""SHA-256 of each source as it was reviewed. Whoever changes one lets somebody review it again, and says so in the commit."""


@pytest.mark.parametrize("name", REVIEWED)
def test_a_baselines_source_is_the_one_that_was_reviewed(name: str) -> None:
    """No column is made weaker or stronger in passing."""
    assert hashlib.sha256((COLUMNS / name).read_bytes()).hexdigest() == REVIEWED[name]


def _modules_after(statement: str) -> set[str]:
    script = f"import json, sys; {statement}; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], cwd=COLUMNS.parents[1], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("column", ["standard", "checked", "temporal.plain", "temporal.checked"])
def test_a_hand_written_column_does_not_use_the_library(column: str) -> None:
    """What the library does for its user, these columns do by hand or not at all."""
    assert "interlock" not in _modules_after(f"import harness.columns.{column}")


@pytest.mark.parametrize(
    ("worker", "column"),
    [
        *(("worker", column) for column in ("standard", "checked", "checked_with_our_rule", "interlock")),
        *(("temporal.worker", f"temporal.{column}") for column in ("plain", "checked", "interlock")),
    ],
)
def test_a_restarted_worker_does_not_load_the_models_sdk(worker: str, column: str) -> None:
    """A worker that only finishes a saved decision pays for nothing else; every column is alike in that."""
    loaded = _modules_after(f"import harness.{worker}, harness.columns.{column}")
    assert "stripe" in loaded
    assert "anthropic" not in loaded
