"""Tests of a guarantee on neighbouring logs: by sampling, and by the values before noise.

method_audit                      `audit method`: runs both tests on every pair; `MethodAudit.holds` is the verdict
neighbour_logs, user_rows         the pairs of logs, and the rows by which users hold keys
mechanism, method_mechanism       what is tested; a method, which reads and counts a log once and draws many times
sampling_test, events             the epsilon that many runs show, and the events that show it
exact_test, steps                 bounds of sensitivity and delta, compared with the values that noise is added to
fresh_processes                   a check that two processes draw different noise
method_steps, method_runs         steps and many runs of querycloak's methods, by the class of what they counted
phrase_levels, synthetic_parts    the same for phrases, and for parts of made-up logs
runs, public_runs, weighted_runs  many runs at once of any method, of public keys, of a weighted selection
remembering_engine                an engine that computes equal expressions once
"""
