"""Owner's statements on a release: a small TOML file, and its meaning for the signer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from querycloak.errors import InputError
from querycloak.files.documents import parsed_toml
from querycloak.privacy.parameters import path_of
from querycloak.sentence import Sentence


@dataclass(frozen=True)
class About:
    """Fields of the page to sign; what is not given is empty, and is seen to be empty."""

    owner: str = ""
    contact: str = ""
    licence: str = ""
    purpose: str = ""
    audience: str = ""
    period: str = ""
    region: str = ""
    review_date: str = ""
    legal_basis: str = ""
    officer_advice: str = ""
    approved_by: str = ""
    residual_risk_accepted_by: str = ""
    notes: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str] | str | os.PathLike[str] | None) -> About:
        """Fields as they are given, or from a file; nothing, no fields."""
        fields_given = {} if given is None else given
        if not isinstance(fields_given, Mapping):
            fields_given = _read(path_of("about", given, "give fields by name, or a TOML file with them"))
        known = [field.name for field in fields(cls)]
        odd = [name for name in fields_given if name not in known]
        if odd:
            raise InputError(
                Sentence(
                    "{about} has a field {odd!r} that nobody asks for; it may have {known}",
                    odd=odd[0],
                    known=", ".join(known),
                )
            )
        return cls(**{name: str(value) for name, value in fields_given.items()})


def _read(path: Path) -> dict[str, Any]:
    try:
        return parsed_toml(path.read_bytes())
    except (OSError, UnicodeError):
        problem = Sentence("the file given with {about} cannot be read; it must be UTF-8 text")
    except ValueError:
        problem = Sentence("the file given with {about} is not TOML; write lines such as {line}", line=_LINE)
    raise InputError(problem)


_LINE = 'owner = "the name of your organisation"'
PUBLIC = ("owner", "contact", "licence", "purpose", "audience", "period", "region", "review_date")
"""Fields that go along with a release."""
PRIVATE = ("legal_basis", "officer_advice", "approved_by", "residual_risk_accepted_by", "notes")
"""Fields that stay with the owner."""
TITLES = {
    "owner": "Owner", "contact": "Contact", "licence": "Licence", "purpose": "Purpose", "audience": "For whom",
    "period": "Period of the log", "region": "Region", "review_date": "To be reviewed on", "legal_basis": "Legal basis",
    "officer_advice": "Advice of the data protection officer, and whether it was followed",
    "approved_by": "Measures approved by", "residual_risk_accepted_by": "Residual risk accepted by", "notes": "Notes",
}  # fmt: skip
