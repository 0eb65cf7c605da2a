"""The method values that tests run the contract over, as plain data: any version can make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
POOL, URLS = (str(FIXTURES / name) for name in ("pool.txt", "urls.txt"))
Value = tuple[str, dict[str, Any]]

METHODS: dict[str, Value] = {
    "queries": ("Queries", {"epsilon": 4, "delta": 1e-3}),
    "queries laplace": ("Queries", {"epsilon": 4, "delta": 1e-3, "selection": "laplace"}),
    "queries gaussian priors": ("Queries", {"epsilon": 4, "delta": 1e-3, "selection": "gaussian", "priors": "public"}),
    "queries knobs": ("Queries", {"noise": 0.5, "threshold": 4, "per_user": 2}),
    "clicks": ("Clicks", {"epsilon": 4, "delta": 1e-3}),
    "clicks gaussian": ("Clicks", {"epsilon": 4, "delta": 1e-3, "selection": "gaussian"}),
    "clicks weighted": ("Clicks", {"epsilon": 4, "delta": 1e-3, "selection": "weighted", "per_user": 40}),
    "clicks rounds": ("Clicks", {"epsilon": 9, "delta": 1e-3, "selection": "rounds", "per_user": 40}),
    "clicks priors": (
        "Clicks",
        {"epsilon": 9, "delta": 1e-3, "selection": "rounds", "per_user": 40, "priors": "public"},
    ),
    "clicks gaussian priors": ("Clicks", {"epsilon": 4, "delta": 1e-3, "selection": "gaussian", "priors": "public"}),
    "clicks laplace": ("Clicks", {"epsilon": 4, "delta": 1e-3, "selection": "laplace"}),
    "clicks two draws": ("Clicks", {"epsilon": 8, "delta": 1e-3, "per_user": 2, "two_draws": True}),
    "clicks knobs": ("Clicks", {"noise": 0.5, "threshold": 4, "per_user": 2}),
    "clicks without counts": ("Clicks", {"epsilon": 4, "delta": 1e-3, "counts": "none", "selection": "laplace"}),
    "clicks counted": ("Clicks", {"epsilon": 9, "delta": 1e-3, "count_of": "clicks", "selection": "rounds"}),
    "clicks counted laplace": ("Clicks", {"epsilon": 9, "delta": 1e-3, "count_of": "clicks", "selection": "laplace"}),
    "clicks paper": ("Clicks", {"noise": 1, "threshold": 8, "variant": "paper"}),
    "clicks auto": ("Clicks", {"epsilon": 4, "delta": 1e-3, "per_user": "auto", "selection": "gaussian"}),
    "sessions auto": ("Sessions", {"epsilon": 8, "delta": 1e-3, "per_user": "auto", "selection": "weighted"}),
    "sessions": ("Sessions", {"epsilon": 8, "delta": 1e-3}),
    "sessions with queries": ("Sessions", {"epsilon": 12, "delta": 1e-3, "tables": "queries,clicks,sessions"}),
    "sessions without counts": ("Sessions", {"epsilon": 12, "delta": 1e-3, "counts": "none", "selection": "rounds"}),
    "sessions gaussian": (
        "Sessions",
        {"epsilon": 8, "delta": 1e-3, "selection": "gaussian", "split": "clicks=1,sessions=2"},
    ),
    "sessions knobs": (
        "Sessions",
        {"noise": 1, "threshold": 9, "sessions_per_user": 1, "queries_per_session": 3, "no_clicks": True},
    ),
    "sessions paper": ("Sessions", {"noise": 1, "threshold": 10, "variant": "paper"}),
    "phrases": ("Phrases", {"epsilon": 12, "delta": 1e-3, "queries": True}),
    "phrases rounds": ("Phrases", {"epsilon": 16, "delta": 1e-3, "selection": "rounds", "per_user": 40, "longest": 2}),
    "phrases gaussian": ("Phrases", {"epsilon": 16, "delta": 1e-3, "selection": "gaussian", "per_user": 4}),
    "phrases knobs": ("Phrases", {"noise": 0.5, "threshold": 6, "per_user": 3, "longest": 1}),
    "phrases without counts": ("Phrases", {"epsilon": 12, "delta": 1e-3, "counts": "none", "selection": "laplace"}),
    "phrases by attributes": (
        "Phrases",
        {"epsilon": 24, "delta": 1e-3, "by": "country,device", "domain_of": "device=desktop;mobile", "queries": True},
    ),
    "synthetic": ("Synthetic", {"epsilon": 60, "delta": 1e-2, "users": 40}),
    "pool": ("QueryPool", {"epsilon": 8, "pool": POOL}),
    "pool urls": ("QueryPool", {"epsilon": 12, "pool": POOL, "urls": URLS}),
    "pool threshold": ("QueryPool", {"epsilon": 12, "delta": 1e-3, "off_pool": True, "clicks": "threshold"}),
    "pool paper": ("QueryPool", {"noise": 1, "threshold": 10, "pool": POOL, "variant": "paper"}),
    "optimal": ("Optimal", {"epsilon": 8, "delta": 1e-2, "per_user": 8, "linked_per_user": 3}),
    "optimal frequent": (
        "Optimal",
        {"epsilon": 8, "delta": 1e-2, "per_user": 4, "objective": "frequent", "support": 0.01, "output_size": 50},
    ),
    "optimal paper": ("Optimal", {"epsilon": 0.7, "delta": 0.5, "variant": "paper"}),
    "optimal paper joint": (
        "Optimal",
        {"epsilon": 2, "delta": 0.6, "variant": "paper", "objective": "joint", "support": 0.01, "output_size": 20},
    ),
    "k queries": ("KAnonymity", {"min_users": 3, "keys": "queries"}),
    "k clicks": ("KAnonymity", {"min_users": 3}),
    "k log": ("KAnonymity", {"min_users": 3, "keys": "log"}),
    "k dma": ("KAnonymity", {"preset": "dma"}),
    "affinity": ("Affinity", {"min_users": 3, "theta": 0.8, "concept_users": 5}),
    "affinity with times": (
        "Affinity",
        {"min_users": 3, "concept_users": 5, "max_neighbours": 4, "keep_time": True},
    ),
    "generalize": ("Generalize", {"min_users": 3}),
    "eu records": (
        "EuRecords",
        {"preset": "dma-2026", "min_term_users": 3, "min_group_users": 5, "mini_session": 2},
    ),
    "eu records of users": ("EuRecords", {"preset": "ddg-2026", "min_term_users": 2}),
    "semantic": ("Semantic", {"epsilon": 4, "domain": "sport", "max_queries": 60}),
    "semantic topics": (
        "Semantic",
        {"epsilon": 4, "domain": "disease|sport", "criterion": "nsqc", "max_queries": 3, "times": "day"},
    ),
    "semantic counts": ("Semantic", {"epsilon": 4, "domain": "question", "criterion": "hbdp", "max_queries": 9}),
    "semantic paper": (
        "Semantic",
        {"epsilon": 4, "domain": "sport", "criterion": "sqc2", "topics": "children", "variant": "paper"},
    ),
}
