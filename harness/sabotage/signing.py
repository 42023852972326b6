"""Defects of the signed log: what is signed without a look, what is sent before it is anchored, and keys that others can read."""

from __future__ import annotations

from harness.sabotage.defects import ANCHOR, SIGNED_LOG, Defect, lines

_WRITING = "interlock/projections/log/writing.py"
_TREE = "interlock/projections/log/tree.py"
_SENDING = "interlock/domain/sending.py"
_SERVICE = "interlock/log/service.py"
_KEYFILES = "interlock/keyfiles.py"
_COMMANDS = "interlock/cli/signing.py"
_TEST = "tests/integration/test_log.py"
_COMMANDS_TEST = "tests/integration/test_cli_log.py"
_ANCHOR_TEST = "tests/integration/test_anchor.py"
_KEYS_TEST = "tests/unit/test_keyfiles.py"

DEFECTS = (
    Defect(
        name="two-publish-at-once",
        breaks=(SIGNED_LOG,),
        file=_COMMANDS,
        old='            with alone(folder / ".publishing"):',
        new="            if alone:",
        tests=(_COMMANDS_TEST,),
    ),
    Defect(
        name="rotated-before-the-list-is-read",
        breaks=(SIGNED_LOG,),
        file=_COMMANDS,
        old="    if not listed.has_in_use(old.key_id):",
        new="    if not listed:",
        tests=(_COMMANDS_TEST,),
    ),
    Defect(
        name="stored-hashes-signed-unread",
        breaks=(SIGNED_LOG,),
        file=_WRITING,
        old="    if not state_holds or leaf_hash(entry) != row.leaf_hash:",
        new="    if len(entry) < 0:",
        tests=(_TEST,),
    ),
    Defect(
        name="the-mark-is-not-looked-at",
        breaks=(SIGNED_LOG,),
        file=_WRITING,
        old='            self._require_root(mark, "what was signed here last")',
        new="            assert mark",
        tests=(_TEST,),
    ),
    Defect(
        name="the-row-before-the-mark",
        breaks=(SIGNED_LOG,),
        file=_WRITING,
        old=lines(
            "        self._mark.raise_to(note, after=marked)",
            "        stored = StoredCheckpoint(checkpoint, signatures, self._clock.now().isoformat())",
            "        return note if self.tree.store.add_checkpoint(stored, nodes) else None",
        ),
        new=lines(
            "        stored = StoredCheckpoint(checkpoint, signatures, self._clock.now().isoformat())",
            "        added = self.tree.store.add_checkpoint(stored, nodes)",
            "        self._mark.raise_to(note, after=marked)",
            "        return note if added else None",
        ),
        tests=(_TEST,),
    ),
    Defect(
        name="an-epoch-of-the-databases-own",
        breaks=(SIGNED_LOG,),
        file=_WRITING,
        old="        if mark.origin != log.origin:",
        new="        if not mark.origin:",
        tests=(_TEST,),
    ),
    Defect(
        name="a-rotation-that-nobody-signed",
        breaks=(SIGNED_LOG,),
        file="interlock/projections/log/rotations.py",
        old="rotated.new in trusted and _holds(log_id, rotated)",
        new="rotated.new in trusted",
        tests=("tests/integration/test_cli_log.py",),
    ),
    Defect(
        name="a-replaced-key-is-sent-to-a-new-epoch",
        breaks=(SIGNED_LOG,),
        file=_WRITING,
        old="if _is_signed(last, log, replaced_by(self._journal.log_id, ours, log.rotations)):",
        new="if _is_signed(last, log, set()):",
        tests=("tests/integration/test_cli_log.py",),
    ),
    Defect(
        name="a-tile-published-as-it-is-stored",
        breaks=(SIGNED_LOG,),
        file="interlock/projections/log/publishing.py",
        old="holds = root_of(hashes) == nodes.node(TILE_HEIGHT * (level + 1), tile.index)",
        new="holds = root_of(hashes) != nodes",
        tests=("tests/integration/test_cli_log.py",),
    ),
    Defect(
        name="records-published-as-they-are-stored",
        breaks=(SIGNED_LOG,),
        file="interlock/projections/log/publishing.py",
        old="holds = hashes == tuple(nodes.node",
        new="holds = () != tuple(nodes.node",
        tests=("tests/integration/test_cli_log.py",),
    ),
    Defect(
        name="a-proof-given-out-unchecked",
        breaks=(SIGNED_LOG,),
        file=_TREE,
        old="            verify_inclusion(index, checkpoint.size, nodes.node(0, index), hashes, checkpoint.root)",
        new="            assert hashes",
        tests=(_TEST,),
    ),
    Defect(
        name="a-silent-witness-holds-the-log-up",
        breaks=(SIGNED_LOG,),
        file=_SERVICE,
        old="                if self._guarded(self._step) is False",
        new=lines(
            "                [self.ask(witness) for witness in self.witnesses if self._leads]",
            "                if self._guarded(self._step) is False",
        ),
        tests=("tests/integration/test_log_witnesses.py",),
    ),
    Defect(
        name="a-key-that-others-can-read",
        breaks=(SIGNED_LOG,),
        file=_KEYFILES,
        old="    if status.st_mode & _OTHERS:",
        new="    if not status.st_mode:",
        tests=(_KEYS_TEST,),
    ),
    Defect(
        name="sent-without-an-anchor",
        breaks=(ANCHOR,),
        file=_SENDING,
        old="        if why_not is not None:",
        new="        if why_not == sender:",
        tests=(_ANCHOR_TEST,),
    ),
    Defect(
        name="anchored-under-any-checkpoint",
        breaks=(ANCHOR,),
        file=_TREE,
        old="        if policy is None or accepts(policy, latest):",
        new="        if policy is None or latest.signatures:",
        tests=(_ANCHOR_TEST,),
    ),
    Defect(
        name="a-wait-that-ends-with-its-gate-is-a-crash",
        breaks=(ANCHOR,),
        file="interlock/async_driver.py",
        old="                return CLOSED_WHILE_WAITING  #",
        new="                raise GateClosed(CLOSED_WHILE_WAITING)  #",
        tests=(_ANCHOR_TEST,),
    ),
    Defect(
        name="a-forked-child-keeps-the-marks-lock",
        breaks=(SIGNED_LOG,),
        file="interlock/infrastructure/high_water.py",
        old="    _held.add(fd)",
        new="    assert fd not in _held",
        tests=("tests/unit/test_high_water.py",),
    ),
    Defect(
        name="an-earlier-epoch-in-the-marks-place",
        breaks=(SIGNED_LOG,),
        file="interlock/infrastructure/high_water.py",
        old="    if _epoch_of(now.origin) < _epoch_of(before.origin):",
        new="    if _epoch_of(now.origin) == _epoch_of(before.origin):",
        tests=(_TEST,),
    ),
)
