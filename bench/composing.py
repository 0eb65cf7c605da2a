"""Composing by privacy-loss distributions against dp-accounting, which gets an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.sampling.noise import Gaussian, Laplace

DELTA, WIDTH = 1e-5, 1e-5
SCRIPT = """
import json, sys, time
from dp_accounting.pld import privacy_loss_distribution as pld
grid = {"sensitivity": 1, "value_discretization_interval": WIDTH}
makers = {"gaussian": lambda size: pld.from_discrete_gaussian_mechanism(size, **grid),
          "laplace": lambda size: pld.from_discrete_laplace_mechanism(1 / size, **grid)}
start = time.perf_counter()
together = None
for law, size, counts in json.loads(sys.argv[1]):
    part = makers[law](size).self_compose(counts)
    together = part if together is None else together.compose(part)
epsilon = together.get_epsilon_for_delta(float(sys.argv[2]))
print(json.dumps({"epsilon": epsilon, "seconds": time.perf_counter() - start}))
"""
CASES = {
    "12 Gaussian releases": [("gaussian", 23.9, 384)],
    "365 Laplace releases": [("laplace", 10.0, 365)],
    "three kinds": [("gaussian", 23.9, 192), ("gaussian", 12.0, 24), ("laplace", 10.0, 4)],
}


def environment(folder: Path) -> Path:
    """The python of an environment with dp-accounting."""
    python = folder / "dp-accounting" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "dp-accounting"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "dp-accounting==0.6.0"], check=True)
    return python


def main(_: Path, rows: int, folder: Path) -> None:
    """One line of JSON for each case; it does not depend on rows, so it runs with the smallest."""
    if rows > 1_000_000:
        return
    for name, parts in CASES.items():
        start = time.perf_counter()
        counts = {Gaussian(size) if law == "gaussian" else Laplace(size): number for law, size, number in parts}
        epsilon = Losses(counts).epsilon_at(DELTA)
        seconds = time.perf_counter() - start
        script = SCRIPT.replace("WIDTH", repr(WIDTH))
        command = [str(environment(folder)), "-c", script, json.dumps(parts), str(DELTA)]
        peer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        report = {
            "bench": f"compose {name}",
            "epsilon": epsilon,
            "dp_accounting_epsilon": peer["epsilon"],
            "ratio": round(seconds / peer["seconds"], 4),
        }
        print(json.dumps(report), flush=True)
