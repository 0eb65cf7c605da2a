"""Owner's statements on a release: a small TOML file, and its meaning for receivers and for the signer."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from querycloak.errors import InputError
from querycloak.files.documents import parsed_toml
from querycloak.privacy.parameters import path_of
from querycloak.sentence import Sentence

_LONGEST = 10_000
_DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(10\.\d{4,9}/[^\s\"<>{}\\^`|]+)", re.IGNORECASE)
_SEVERAL_LINES = ("citation", "notes")


@dataclass(frozen=True)
class About:
    """Fields of the page to sign; a field that is not given is empty, and shown as empty."""

    owner: str = ""
    contact: str = ""
    licence: str = ""
    doi: str = ""
    keywords: str = ""
    """The texts with commas between; a file may also have a list."""
    citation: str = ""
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
    def of(cls, given: Mapping[str, Any] | str | os.PathLike[str] | None) -> About:
        """Fields from a mapping or from a TOML file; None gives empty fields."""
        fields_given = {} if given is None else given
        if not isinstance(fields_given, Mapping):
            fields_given = _read(path_of("about", given, "give fields by name, or a TOML file with them"))
        known = [field.name for field in fields(cls)]
        odd = [name for name in fields_given if name not in known]
        if odd:
            raise InputError.of(
                "{about} has an unknown field {odd!r}; it may have {known}",
                odd=odd[0],
                known=", ".join(known),
            )
        return cls(**{name: _checked(name, value) for name, value in fields_given.items()})

    @property
    def public(self) -> dict[str, Any]:
        """The fields that go along with a release, as its card has them; empty ones are left out."""
        given = {name: getattr(self, name) for name in PUBLIC if getattr(self, name)}
        if "keywords" in given:
            given["keywords"] = [word.strip() for word in self.keywords.split(",") if word.strip()]
        return given


def _read(path: Path) -> dict[str, Any]:
    try:
        return parsed_toml(path.read_bytes())
    except (OSError, UnicodeError):
        problem = Sentence("the file given with {about} cannot be read; it must be UTF-8 text")
    except ValueError:
        problem = Sentence("the file given with {about} is not TOML; write lines such as {line}", line=_LINE)
    raise InputError(problem)


def _checked(name: str, value: object) -> str:
    """Return the text of a field; refuse what a card, a web page or a BibTeX entry cannot hold."""
    if name == "keywords" and isinstance(value, (list, tuple)):
        if not all(isinstance(word, str) and "," not in word for word in value):
            _refuse(name, "texts without commas, or one text with commas between keywords")
        value = ", ".join(value)
    if isinstance(value, (Mapping, list, tuple)):
        _refuse(name, "a text")
    text = str(value).strip()
    lines = text.splitlines() if name in _SEVERAL_LINES else [text]
    if len(text) > _LONGEST or not all(line.replace("\t", " ").isprintable() for line in lines):
        what = "a text" if name in _SEVERAL_LINES else "a text of one line"
        _refuse(name, f"{what} of at most {_LONGEST:,} characters, without control characters")
    if name == "citation" and "```" in text:
        _refuse(name, "a BibTeX entry or a reference, without ```")
    if name == "doi" and text:
        match = _DOI.fullmatch(text) or _refuse(name, "a DOI, such as 10.5281/zenodo.1234")
        return match[1]
    return text


def _refuse(name: str, rule: str) -> NoReturn:
    raise InputError.of("the field {field!r} of {about} must be {rule}", field=name, rule=rule)


_LINE = 'owner = "the name of your organisation"'
PUBLIC = (
    "owner", "contact", "licence", "doi", "keywords", "citation", "purpose", "audience", "period", "region",
    "review_date",
)  # fmt: skip
"""Fields that go along with a release."""
PRIVATE = ("legal_basis", "officer_advice", "approved_by", "residual_risk_accepted_by", "notes")
"""Fields that stay with the owner."""
TITLES = {
    "owner": "Owner", "contact": "Contact", "licence": "Licence", "doi": "DOI", "keywords": "Keywords",
    "citation": "Citation", "purpose": "Purpose", "audience": "For whom",
    "period": "Period of the log", "region": "Region", "review_date": "To be reviewed on", "legal_basis": "Legal basis",
    "officer_advice": "Advice of the data protection officer, and whether it was followed",
    "approved_by": "Measures approved by", "residual_risk_accepted_by": "Residual risk accepted by", "notes": "Notes",
}  # fmt: skip
