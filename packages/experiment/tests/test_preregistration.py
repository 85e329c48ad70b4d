"""The pre-registration: the same study gives the same text, and exports repeat its hash."""

import hashlib

import pytest
from sqlalchemy import update

from commands import assert_rejected
from experiment_studies import Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.export.preregistration import FILE, preregister, read_hash
from eyechart_experiment.export.study_export import export
from eyechart_experiment.quality.rules import rules_text
from eyechart_experiment.storage.database_tables import StimulusImageRow
from eyechart_experiment.storage.experiment_folder import connect_study, open_study


def test_the_plan_is_written_once_and_every_export_repeats_its_hash(tmp_path, run):
    folder = make_study(tmp_path / "study", consent="Agree.\n\nOr not.", approval="E-12")
    assert read_hash(folder) is None
    result = run("experiment", "preregister", folder.path)
    assert result.status == 0, result.err
    text = (folder.path / FILE).read_text(encoding="utf-8")
    body, _, rest = text.rpartition("\nSHA-256 of the text above: `")
    digest = hashlib.sha256(body.encode()).hexdigest()
    assert rest == f"{digest}`\n" and digest in result.out
    for part in (
        "# Pre-registration of the study small", "collected when this plan was written: 0",
        "| trials | 8 |", "| approval | E-12 |", "> Or not.", rules_text().strip(),
        "$ eyechart experiment export small\n",
        "SHA-256 of roles and pixels: `", "## Seeds",
    ):  # fmt: skip
        assert part in text, part
    # codes decide who is paid
    assert "CDONE" not in text and "CFAIL" not in text
    with in_process(folder) as client:
        visitor = Visitor(client).begin()
        visitor.response(visitor.next()["trial"]["id"])
    # with data it stays as it was, and says how many responses there were then
    assert preregister(folder) == (folder.path / FILE, digest, 0)
    assert "responses" not in run("experiment", "preregister", folder.path).out
    # written only now, it says so
    (folder.path / FILE).rename(folder.path / "first.md")
    late = run("experiment", "preregister", folder.path)
    assert "1 response had been collected when it was written" in late.out
    (folder.path / "first.md").rename(folder.path / FILE)
    done = run("experiment", "export", folder.path)
    assert f"Pre-registration: SHA-256 {digest}" in done.out
    written = (folder.path / "export" / "rules.txt").read_text(encoding="utf-8")
    assert written.endswith(f"Pre-registration: SHA-256 {digest}\n")


def test_the_same_study_has_the_same_hash_and_another_stimulus_changes_it(tmp_path):
    folder = make_study(tmp_path / "study")
    _, digest, _ = preregister(folder)
    (folder.path / FILE).unlink()
    assert preregister(folder)[1] == digest
    with connect_study(folder) as study, study.database.writing() as db:
        db.execute(update(StimulusImageRow).where(StimulusImageRow.id == 1).values(sha256="0" * 64))
    (folder.path / FILE).unlink()
    assert preregister(folder)[1] != digest


def test_the_plan_states_the_hypotheses(tmp_path, run):
    folder = make_study(tmp_path / "study")
    file = tmp_path / "hypotheses.md"
    file.write_text(" \n")
    empty = run("experiment", "preregister", folder.path, "--hypotheses", file)
    assert_rejected(empty, f"{file} is empty: state what the study tests")
    assert not (folder.path / FILE).exists()
    file.write_text("H1: R_a of humans exceeds that of every model.\n")
    stated = ("experiment", "preregister", folder.path, "--hypotheses", file)
    assert run(*stated).status == 0
    text = (folder.path / FILE).read_text(encoding="utf-8")
    assert "## Hypotheses\n\nH1: R_a of humans exceeds that of every model.\n\n## Design" in text
    assert run(*stated).status == run("experiment", "preregister", folder.path).status == 0
    file.write_text("H1: R_a of humans equals that of the best model.")
    assert_rejected(run(*stated), "is written once and has other hypotheses")
    assert (folder.path / FILE).read_text(encoding="utf-8") == text
    (folder.path / FILE).unlink()
    assert run("experiment", "preregister", folder.path).status == 0
    text = (folder.path / FILE).read_text(encoding="utf-8")
    assert "## Hypotheses\n\nNone are stated: the analysis is exploratory." in text


@pytest.mark.parametrize("old, new", [("| trials | 8 |", "| trials | 9 |"), ("`\n", "` \n")])
def test_an_edited_plan_is_rejected_before_anything_is_exported(tmp_path, old, new):
    folder = make_study(tmp_path / "study")
    path, _, _ = preregister(folder)
    path.write_text(new.join(path.read_text(encoding="utf-8").rsplit(old, 1)), encoding="utf-8")
    for do in (preregister, export):
        with pytest.raises(UsageError, match=r"was edited .* restore it, or delete it"):
            do(open_study(folder.path))
    assert not (folder.path / "export").exists()
