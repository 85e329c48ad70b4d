"""`python -m eyechart` is the `eyechart` command."""

from eyechart.cli.app import main

if __name__ == "__main__":
    main()
