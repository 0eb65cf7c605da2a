"""Numbers that Hong et al. (EDBT 2012) print, and why they cannot come from their constraints."""

from __future__ import annotations

EXP_EPSILONS = (1.001, 1.01, 1.1, 1.4, 1.7, 2.0, 2.3)
DELTAS = (1e-4, 1e-3, 1e-2, 1e-1, 0.2, 0.5, 0.8)
SUPPORTS = (1 / 1000, 1 / 750, 1 / 500, 1 / 250, 1 / 100)
SIZES = (3000, 4000, 5000, 6000, 7000, 8000)
LARGEST = 13_088
"""The paper's maximal output at e^epsilon = 2, delta = 0.5; its output sizes are shares of it."""
PAPER_USERS, PAPER_PAIRS = 1_980, 6_043
# AOL's part, 2,500 users drawn from it, and these without pairs of a single user.
TABLE_3 = {
    "size": (1_864_860, 237_786, 53_067),
    "users": (51_922, 2_500, PAPER_USERS),
    "queries": (583_084, 83_130, 4_971),
    "urls": (373_837, 82_076, 4_289),
    "pairs": (1_190_491, 163_681, PAPER_PAIRS),
}
FREQUENT = (127, 105, 70, 34, 15)
"""Number of frequent pairs at each support: the smallest of which the recalls of Table 5 are shares, but for two."""

# As printed; by e^epsilon, then by delta.
TABLE_4 = (
    (3759, 4007, 4007, 4007, 4007, 4007, 4007),
    (3759, 4007, 4879, 4879, 4879, 4879, 4879),
    (3759, 4007, 4891, 8382, 8382, 8382, 8382),
    (3759, 4007, 4891, 8874, 10445, 11419, 11419),
    (3759, 4007, 4891, 8874, 10445, 12438, 12438),
    (3759, 4007, 4891, 8874, 10445, 13088, 13088),
    (3759, 4007, 4891, 8874, 10445, 13088, 13901),
)
# By support, then by output size.
TABLE_5 = (
    (0.8873, 0.8189, 0.874, 0.8661, 0.8583, 0.8346),
    (0.8095, 0.8762, 0.8571, 0.8476, 0.8952, 0.8667),
    (0.9143, 0.9143, 0.9286, 0.9143, 0.8857, 0.8714),
    (0.9116, 0.8529, 0.8529, 0.8529, 0.8529, 0.8235),
    (0.933, 0.8667, 0.8, 0.8, 0.8, 0.7333),
)
TABLE_6 = (
    (0.0551, 0.085, 0.1058, 0.1279, 0.1485, 0.1785),
    (0.0549, 0.0854, 0.1116, 0.1271, 0.1477, 0.1767),
    (0.0559, 0.0865, 0.1048, 0.1247, 0.1448, 0.1716),
    (0.0555, 0.086, 0.1043, 0.1236, 0.1393, 0.161),
    (0.0574, 0.088, 0.1063, 0.1246, 0.1392, 0.1583),
)
# SPE's shares of pairs, at e^epsilon = 2 by delta, and at delta = 0.1 by e^epsilon; the other solvers lie close by.
TABLE_7A = {1e-3: 0.128, 1e-2: 0.181, 1e-1: 0.260, 0.2: 0.281, 0.5: 0.295, 0.8: 0.306}
TABLE_7B = {1.01: 0.177, 1.1: 0.257, 1.4: 0.260, 1.7: 0.260, 2.0: 0.260, 2.3: 0.260}
# The other solvers at the same points: bintprog, qsopt_ex, scip, feaspump.
TABLE_7_OTHERS = {
    (2.0, 1e-3): (0.096, 0.096, 0.095, 0.096),
    (2.0, 1e-2): (0.152, 0.152, 0.152, 0.152),
    (2.0, 1e-1): (0.238, 0.234, 0.237, 0.258),
    (2.0, 0.2): (0.268, 0.268, 0.268, 0.295),
    (2.0, 0.5): (0.289, 0.295, 0.295, 0.303),
    (2.0, 0.8): (0.295, 0.295, 0.295, 0.303),
    (1.01, 0.1): (0.146, 0.155, 0.146, 0.155),
    (1.1, 0.1): (0.225, 0.225, 0.214, 0.258),
    (1.4, 0.1): (0.238, 0.234, 0.231, 0.258),
    (1.7, 0.1): (0.238, 0.234, 0.231, 0.258),
    (2.3, 0.1): (0.238, 0.234, 0.231, 0.258),
}
SCIP_AGAIN = 0.231
"""Share of scip at (2, 0.1) in Table 7 (b); Table 7 (a) has another for the same point."""
PROOF = (
    "log t = -log(1 - c_ijk/c_ij) is at least c_ijk/c_ij, and for every pair these shares sum to 1 over its users.",
    "So the sum of all users' constraints bounds the number of rows by users x B, whatever the log.",
)
