"""Writes the noun table of WordNet 3.0 that the package ships, from the files of two Debian packages:

    apt-get download wordnet-base wordnet-sense-index
    for package in wordnet-*.deb; do dpkg -x "$package" unpacked; done
    python scripts/make_wordnet.py unpacked/usr/share/wordnet

Same files in, same bytes out. The formats are described in WordNet's manual pages wndb(5WN) and senseidx(5WN).
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent.parent / "src/querycloak/text/data"
IS_A = ("@", "@i")  # hypernym, instance hypernym: without the second, 7,725 names of people and places have no parent


@dataclass(frozen=True)
class Synset:
    offset: int
    labels: list[str]
    parents: list[int]


def entries(path: Path) -> list[str]:
    """The lines of a file of WordNet without the licence at its top."""
    return [line for line in path.read_text("ascii").splitlines() if not line.startswith("  ")]


def synset(line: str) -> Synset:
    """One line of data.noun: offset, file, type, words with their numbers, pointers, gloss."""
    fields = line.split(" | ", maxsplit=1)[0].split()
    count = int(fields[3], 16)
    words = [word.lower() for word in fields[4 : 4 + 2 * count : 2]]
    pointers = fields[5 + 2 * count :]
    parents = [int(pointers[i + 1]) for i in range(0, len(pointers), 4) if pointers[i] in IS_A]
    return Synset(int(fields[0]), list(dict.fromkeys(words)), parents)


def noun_senses(path: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """(label, offset) -> (sense number, how often it was tagged), from index.sense; nouns have type 1."""
    found = {}
    for line in entries(path):
        key, offset, number, tagged = line.split()
        label, rest = key.split("%")
        if rest.startswith("1:"):
            found[label, int(offset)] = (int(number), int(tagged))
    return found


def table(folder: Path) -> dict[str, np.ndarray]:
    synsets = sorted((synset(line) for line in entries(folder / "data.noun")), key=lambda each: each.offset)
    senses = noun_senses(folder / "index.sense")
    labels = sorted(line.split()[0] for line in entries(folder / "index.noun"))
    number_of = {label: number for number, label in enumerate(labels)}
    place_of = {each.offset: place for place, each in enumerate(synsets)}
    pairs = [(label, each.offset) for each in synsets for label in each.labels]
    steps = [place_of[each.offset] - place_of[parent] for each in synsets for parent in each.parents]
    exceptions = sorted({line.strip() for line in entries(folder / "noun.exc")})
    return {
        "id_steps": np.diff([0, *(each.offset for each in synsets)]).astype(np.int32),
        "labels": text("\n".join(labels).replace("_", " ")),
        "labels_per_concept": np.array([len(each.labels) for each in synsets], np.uint8),
        "concept_labels": np.array([number_of[label] for label, _ in pairs], np.int32),
        "senses": np.array([senses[pair][0] for pair in pairs], np.uint8),
        "counts": np.array([senses[pair][1] for pair in pairs], np.uint16),
        "parents_per_concept": np.array([len(each.parents) for each in synsets], np.uint8),
        "steps_to_parent": np.array(steps, np.int32),
        "exceptions": text("\n".join(exceptions)),  # underscores stay: blanks part forms
    }


def text(characters: str) -> np.ndarray:
    return np.frombuffer(characters.encode("ascii"), np.uint8)


def licence(folder: Path) -> str:
    """The licence at the top of data.noun, without its line numbers."""
    lines = [line for line in (folder / "data.noun").read_text("ascii").splitlines() if line.startswith("  ")]
    return "\n".join(re.sub(r"^ +\d+ ", "", line).rstrip() for line in lines).strip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the noun table of WordNet that the package ships.")
    parser.add_argument("folder", type=Path, help="the folder that holds data.noun, index.noun, index.sense, noun.exc")
    parser.add_argument("--out", type=Path, default=DATA, help="where the table and the licence go")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(given.out / "wordnet-3.0-nouns.npz", **table(given.folder))
    (given.out / "WORDNET-LICENSE").write_text(licence(given.folder))
