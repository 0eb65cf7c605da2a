"""Writes the demo's log: a few hundred invented people, in AOL's format, a few bad lines among them."""

from __future__ import annotations

import gzip
import random
from datetime import datetime, timedelta
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/querycloak/experiments/data/demo.tsv.gz"
HEADS = [
    "weather",
    "maps",
    "news",
    "lottery results",
    "crossword help",
    "train times",
    "recipes",
    "horoscope",
]
TOPICS = [
    "arthritis",
    "astronomy",
    "badminton",
    "jazz festival",
    "gardening",
    "chess",
    "asthma",
    "wedding",
    "geology",
]
ASPECTS = [
    "for beginners",
    "near me",
    "cheap",
    "history",
    "pictures",
    "club",
    "equipment",
    "symptoms",
    "calendar",
]
PLACES = ["ashby", "brinton", "calder vale", "dunmore", "elmsford", "fairhaven"]
USERS = 400


def searches(choose: random.Random) -> list[str]:
    topic, place = choose.choice(TOPICS), choose.choice(PLACES)
    forms = [
        topic,
        f"{topic} {choose.choice(ASPECTS)}",
        f"{topic} {place}",
        f"{place} {choose.choice(ASPECTS)}",
    ]
    return [
        choose.choice(HEADS) if choose.random() < 0.45 else choose.choice(forms) for _ in range(choose.randint(1, 24))
    ]


def lines(choose: random.Random) -> list[str]:
    made = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL"]
    for user in range(1, USERS + 1):
        now = datetime(2026, 3, 1) + timedelta(minutes=choose.randint(0, 60 * 24 * 28))
        for query in searches(choose):
            now += timedelta(seconds=choose.choice([40, 90, 400, 90_000, 260_000]))
            site = f"http://www.{query.split()[0]}{choose.choice(['', '', 'guide', 'online'])}.example"
            click = (
                f"{min(choose.choice(range(1, 11)), choose.choice(range(1, 11)))}\t{site}"
                if choose.random() < 0.53
                else "\t"
            )
            made.append(f"{user}\t{query}\t{now}\t{click}")
    made[500:500] = [
        "\tno user here\t2026-03-05 10:00:00\t\t",
        "17\tno such day\t2026-02-30 10:00:00\t\t",
        "a line of prose",
    ]
    return made


if __name__ == "__main__":
    text = "\n".join(lines(random.Random(2006))) + "\n"
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
