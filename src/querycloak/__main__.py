"""`python -m querycloak`."""

from querycloak.present.cli import main

if __name__ == "__main__":
    main()
