"""What users see is recorded: whatever is added, renamed or removed shows in a diff."""

import inventory


def test_what_users_see_is_as_recorded():
    """Otherwise: look at the difference, then  make record-inventory."""
    changed = inventory.difference()
    assert not changed, f"If this is meant, run  make record-inventory:\n{changed}"


def test_commands_names_files_and_pages_are_in_the_inventory():
    lines = inventory.RECORDED.read_text("utf-8").splitlines()
    assert len(lines) == len(set(lines)) > 2000
    for line in (
        "command eyechart evaluate: --n = auto",
        "ec.load(folder)",
        "ec.Results.to_arrow(self)",
        "exit status 130: cli.md, quickstart.md",
        "file run/results.csv: r_low95",
        "file run/predictions/NAME.parquet: delta_v double",
        "file run/results.json: models[].spaces.*.corruptions.*.error.value",
        "file run/results.json: config.seed",
        "page report.html: h2 Where does it break?",
        "documentation how-to/evaluate.md: h2 In Python",
    ):
        assert line in lines
