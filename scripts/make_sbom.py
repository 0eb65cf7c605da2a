"""Bill of materials of the wheel, in CycloneDX 1.6: its files with checksums, and the packages that it was locked with.

`python scripts/make_sbom.py WHEEL LOCK OUT`; `make sbom` builds the wheel first. The same wheel and lock make the same
bytes: no time, no random number.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def bill_of(wheel: Path, lock: Path) -> dict[str, Any]:
    """The bill: the wheel as its subject, its files and the locked packages as components."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        head = HeaderParser().parsestr(archive.read(name).decode())
        files = [_file(each, archive.read(each)) for each in sorted(archive.namelist()) if not each.endswith("/")]
    packages = _packages(lock.read_text())
    subject = _package(head["Name"], head["Version"])
    licence = head.get("License-Expression")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                **subject,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
                **({"licenses": [{"expression": licence}]} if licence else {}),
                "components": files,
            }
        },
        "components": packages,
        "dependencies": [
            {"ref": subject["bom-ref"], "dependsOn": _required(head.get_all("Requires-Dist", []), packages)}
        ],
    }


def _package(name: str, version: str) -> dict[str, Any]:
    address = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return {"type": "library", "bom-ref": address, "name": name, "version": version, "purl": address}


def _file(name: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"type": "file", "bom-ref": f"file:{name}", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}


def _packages(lock: str) -> list[dict[str, Any]]:
    """Locked packages; each lock lists the checksums of every file of a version, as properties here."""
    starts = list(_LOCKED.finditer(lock))
    ends = [each.start() for each in starts[1:]] + [len(lock)]
    return [
        {
            **_package(each[1], each[2]),
            "properties": [
                {"name": "querycloak:sha256", "value": digest} for digest in _HASH.findall(lock, each.end(), end)
            ],
        }
        for each, end in zip(starts, ends, strict=True)
    ]


def _required(requirements: list[str], packages: list[dict[str, Any]]) -> list[str]:
    """References of the locked packages that the wheel requires without an extra."""
    direct = [each for each in requirements if "extra ==" not in each]
    names = {re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0].lower().replace("_", "-") for each in direct}
    return [each["bom-ref"] for each in packages if each["name"].lower().replace("_", "-") in names]


def main(words: list[str]) -> None:
    """Write the bill."""
    wheel, lock, out = map(Path, words)
    out.write_text(json.dumps(bill_of(wheel, lock), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
