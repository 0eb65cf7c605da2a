"""English words that name no concept of their own: they part phrases, and no match begins or ends with one."""

from __future__ import annotations

_WORDS = """
a about above across after again against all almost along already also although always am among an and another any
anybody anyone anything anyway are around as at away back be became because become been before behind being below
beside besides between beyond both but by came can cannot come could did do does doing done down during each either
else enough etc ever every everybody everyone everything except few find for from further gave get gets getting give
given gives go goes going gone got had has have having he hence her here hers herself him himself his how however i
if im in inside instead into is it its itself ive just keep kept know let lets like made make makes making many may
maybe me might more most mostly much must my myself near need needs neither never no nobody none nor not nothing now
of off often on once one ones only onto or other others ought our ours ourselves out over own per perhaps please
quite rather really rid said same say see seem seemed seems seen several shall she should since so some somebody
someone something still such take taken takes than that the their theirs them themselves then thence there these
they this those though through throughout thus to together too took toward towards under unless until up upon us use
used using very via vs want wants was we well went were what whatever when whence where wherever whether which while
who whoever whole whom whose why will with within without would www yet you your yours yourself com net org http
https html offering selling looking
"""
_SIGNS = "& - + / | , . : ; ! ? ' \" ( )"

STOP_WORDS = frozenset([*_WORDS.split(), *_SIGNS.split()])
