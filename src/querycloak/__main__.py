"""`python -m querycloak`, and the command that is installed.

Signal handlers come first: an interrupt ends in one line, at any time afterwards.
"""

import os

INTERRUPTED = 130

try:
    from querycloak.interruption import handle_signals

    handle_signals()
    from querycloak.cli.running import run_and_exit
except KeyboardInterrupt:
    os.write(2, b"querycloak: interrupted before anything was done\n")
    os._exit(INTERRUPTED)


def main() -> None:
    """Run the command line and end with its exit code."""
    run_and_exit(_command)


def _command() -> object:
    from querycloak.cli.cli import app

    return app(standalone_mode=False)


if __name__ == "__main__":
    main()
