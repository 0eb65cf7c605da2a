"""Who searches: how much, when, about what, for how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from querycloak.synthetic.heavy_tails import Floats, Ints
from querycloak.synthetic.world import DISEASE, World

DAY = 86_400
DAYS = 92
START = int(np.datetime64("2006-03-01T00:00:00").astype("datetime64[s]").astype(np.int64))
END = START + DAYS * DAY
MOST_INTERESTS = 6
FAVOURITES = 4
_LASTING = 0.65  # the share of interests that a person had before the log begins and has when it ends
_PASSING_DAYS = 12.0
_WITH_CONDITION = 0.08
_MOST_SESSIONS = 900
_SESSIONS_MEDIAN, _SESSIONS_SPREAD = 5.6, 1.43


@dataclass(frozen=True)
class People:
    """One row for each person; interests have MOST_INTERESTS columns, of which the first `interests` are held."""

    sessions: Ints
    given: Ints
    surname: Ints
    town: Ints
    state: Ints
    hour: Floats  # of the day, at which most sessions begin
    first_day: Floats
    last_day: Floats
    interests: Ints
    topic: Ints
    begins: Floats
    ends: Floats
    favourite: Ints  # things that an interest turns around, FAVOURITES for each
    condition: Ints  # a disease's number among the things, or -1

    def __len__(self) -> int:
        return len(self.sessions)


def make_people(world: World, random: np.random.Generator, number: int, visits: int | None = None) -> People:
    """This number of people; with `visits`, each comes so often at most."""
    wanted = random.lognormal(np.log(_SESSIONS_MEDIAN), _SESSIONS_SPREAD, number)
    sessions = np.clip(np.ceil(wanted), 1, visits or _MOST_SESSIONS).astype(np.int64)
    # Who searches little does so within fewer days.
    length = np.clip(random.gamma(1.2, 6.0 * np.sqrt(sessions)), 0.5, DAYS)
    first_day = random.random(number) * (DAYS - length)
    interests = np.minimum(1 + random.poisson(1.8, number), MOST_INTERESTS)
    shape = (number, MOST_INTERESTS)
    topic = random.choice(len(world.topic_weights), shape, p=world.topic_weights / world.topic_weights.sum())
    lasting = random.random(shape) < _LASTING
    begins = first_day[:, None] + random.random(shape) * length[:, None]
    ends = begins + random.exponential(_PASSING_DAYS, shape)
    begins[lasting], ends[lasting] = 0.0, DAYS
    begins[:, 0], ends[:, 0] = 0.0, DAYS  # nobody is without any interest
    condition = np.where(
        random.random(number) < _WITH_CONDITION,
        world.diseases[(random.random(number) * len(world.diseases)).astype(np.int64)],
        -1,
    )
    ill = condition >= 0
    topic[ill, 0] = DISEASE
    favourite = world.thing_choice.of(
        np.repeat(topic[:, :, None], FAVOURITES, axis=2), random.random((*shape, FAVOURITES))
    )
    favourite[ill, 0, :2] = condition[ill, None]
    spans = world.spans
    return People(
        sessions=sessions,
        given=spans["given"].at(random.integers(0, len(spans["given"]), number)),
        surname=spans["surname"].at(random.integers(0, len(spans["surname"]), number)),
        town=spans["town"].at(random.integers(0, len(spans["town"]), number)),
        state=spans["state"].at(random.integers(0, len(spans["state"]), number)),
        hour=random.normal(16.0, 4.0, number),
        first_day=first_day,
        last_day=first_day + length,
        interests=interests,
        topic=topic,
        begins=begins,
        ends=ends,
        favourite=favourite,
        condition=condition,
    )
