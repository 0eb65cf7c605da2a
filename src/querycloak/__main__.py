"""`python -m querycloak`, and the command that is installed."""

try:
    from querycloak.present.cli import main
except KeyboardInterrupt:
    import sys

    from querycloak.present.running import interrupted

    sys.exit(interrupted())

if __name__ == "__main__":
    main()
