"""`python -m querycloak`, and the command that is installed."""

try:
    from querycloak.cli.cli import main
except KeyboardInterrupt:
    import sys

    from querycloak.cli.running import interrupted

    sys.exit(interrupted())

if __name__ == "__main__":
    main()
