"""`python -m rerail` is the `rerail` command."""

from rerail.server.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
