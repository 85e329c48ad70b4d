"""Run the `eyechart` command with `python -m eyechart`."""

from eyechart.cli.app import main

if __name__ == "__main__":
    main()
