"""File systems of other machines are told from local ones by the system's list of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from querycloak.errors import InputError
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.sqlite import network_share

MOUNTS = """22 1 0:20 / / rw,relatime - ext4 /dev/vda rw
23 22 0:21 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
24 23 0:22 / /home/local rw - xfs /dev/vdb rw
25 22 0:23 / /mnt/a\\040b rw - cifs //server/share rw
26 22 0:24 / /auto rw - autofs systemd rw
27 26 0:25 / /auto rw - fuse.sshfs me@server: rw
28 22 0:26 / /nfs rw - tmpfs nfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/ledger", None),
        ("/home/me/ledger", "nfs4"),
        ("/home", "nfs4"),
        ("/homes/me", None),
        ("/home/local/ledger", None),
        ("/mnt/a b/ledger", "cifs"),
        ("/auto/ledger", "fuse.sshfs"),
        ("/nfs/ledger", None),
    ],
)
def test_the_nearest_mount_decides(path: str, kind: str | None, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert network_share(Path(path), tmp_path / "mounts") == kind
    assert network_share(Path(path), tmp_path / "missing") is None


def test_a_ledger_on_a_share_is_read_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.set_limit("people", 1.0, 1e-6)
    before = ledger.path.read_bytes()
    monkeypatch.setattr("querycloak.privacy.ledger.sqlite.network_share", lambda _: "nfs4")
    assert ledger.show("people")[0].epsilon_limit == 1.0
    with pytest.raises(InputError, match=r"network file system \(nfs4\).* nothing in it was changed"):
        ledger.set_limit("people", 2.0, 1e-6, why="more")
    assert ledger.path.read_bytes() == before
    with pytest.raises(InputError, match="nfs4"):
        Ledger(tmp_path / "new").set_limit("people", 1.0, 1e-6)
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="nfs4"):  # a run that would pay is refused before it counts
        ledger.trusted("people")
