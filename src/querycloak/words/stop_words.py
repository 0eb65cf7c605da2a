"""English words that say little by themselves: articles, prepositions, conjunctions, pronouns, auxiliary verbs.

An n-gram made of these alone is no concept. The list is our own and public: it decides nothing but that.
"""

from __future__ import annotations

_ARTICLES = "a an the"
_PREPOSITIONS = (
    "about above across after against along among around as at before behind below beneath beside besides between "
    "beyond by despite down during except for from in inside into like near of off on onto out outside over past per "
    "since than through throughout till to toward towards under underneath until unto up upon via with within without"
)
_CONJUNCTIONS = (
    "and although because both but either else if lest neither nor once or so that though unless when whenever "
    "where whereas wherever whether while yet"
)
_PRONOUNS = (
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself they them their theirs themselves this these those who whom whose which what whatever how "
    "why there here all any each every few more most much no none not only other others own same some such too very"
)
_AUXILIARIES = (
    "am is are was were be been being do does did doing done have has had having can could may might must shall "
    "should will would ought cannot don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't "
    "i'm i've it's that's what's who's how's there's"
)
_SIGNS = "& - + / | , . : ; ! ? ' \" ( )"

STOP_WORDS = frozenset(" ".join((_ARTICLES, _PREPOSITIONS, _CONJUNCTIONS, _PRONOUNS, _AUXILIARIES, _SIGNS)).split())
