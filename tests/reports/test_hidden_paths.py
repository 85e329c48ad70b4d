"""What is hidden appears nowhere in a report: not in texts, attributes, charts or data."""

import json
import re
from html import unescape

import pytest

from commands import assert_rejected
from eyechart.core.errors import UsageError
from eyechart.reports.hidden_paths import HIDEABLE, hidden_kinds, hide_paths, names_without_folders
from eyechart.reports.html.html_table import Table
from eyechart.reports.html.report_page import render_report, report_results
from eyechart.reports.html.structure_view import View
from eyechart.reports.series.report import load_report
from eyechart.reports.terminal.model_card import card_of
from eyechart.results.results_file import load
from eyechart.structure.study_results import HeldOutExample
from report_pages import NAMES, SECRET, Page, private_run
from report_runs import make_once


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    return make_once(tmp_path_factory, private_run)


def everything(text):
    """All of a page but its own scripts and styles, as written and as read."""
    text = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
    specs = re.search(r'id="chart-specs">(.*?)</script>', text, re.DOTALL)[1]
    return "\n".join((text, unescape(text), json.dumps(json.loads(specs), ensure_ascii=False)))


def page_of(private, *hide):
    return everything(render_report(load_report([private], hide=hide)))


SECRETS = {"paths": SECRET, "names": NAMES}
"""What can be found only if a kind is not hidden."""


@pytest.mark.parametrize("kind", HIDEABLE)
def test_what_is_hidden_is_nowhere_on_the_page(private, kind):
    assert SECRETS[kind] in page_of(private)
    hidden = page_of(private, kind)
    assert SECRETS[kind] not in hidden
    others = [secret for other, secret in SECRETS.items() if other != kind]
    assert all(secret in hidden for secret in others)


def test_all_of_it_can_be_hidden(private):
    hidden = page_of(private, "paths,names")
    assert not [secret for secret in SECRETS.values() if secret in hidden]
    # no other part of any path either
    for word in ("scans of the ward", "asked people.parquet/", "suites/", "nets/", str(private)):
        assert word not in hidden
    # the model still has a name, and the page its numbers
    page = Page(render_report(load_report([private], hide=("paths", "names"))))
    assert "classifier" in page.text and len(page.numbers) > 40 and page.is_balanced


def test_a_hidden_report_has_the_same_numbers(private):
    shown, hidden = (
        Page(render_report(load_report([private], hide=hide))) for hide in ((), ("paths", "names"))
    )
    assert [own["value"] for own, _ in hidden.numbers] == [own["value"] for own, _ in shown.numbers]
    assert len(hidden.specs) == len(shown.specs)


def test_the_card_hides_what_the_page_hides(private):
    assert SECRET in card_of(load_report([private]))
    assert SECRET not in card_of(load_report([private], hide=("paths",)))


def test_the_page_says_what_is_hidden(private):
    page = Page(render_report(load_report([private], hide=("paths",))))
    assert "The command is hidden in this report" in page.text
    assert "from a hidden source" in page.text


def test_paths_of_other_studies_are_hidden_too(private):
    image = HeldOutExample(
        image="data:image/png;base64,AAAA", label="cat", prediction="dog", is_right=False
    )
    table = Table("structure-0", "Accuracy", (), ())
    view = View("Held out", f"Trained in /home/{SECRET}/nets.", table, (), (("1", (image,)),))
    report = load_report([private], hide=("paths",))
    hidden = everything(render_report(report, structure=[view]))
    assert SECRET not in hidden and "AAAA" in hidden


@pytest.mark.parametrize("first", [0.5, None, 3, True])
def test_texts_are_hidden_wherever_they_are_in_a_list(first):
    secret = "/home/ann/scans"
    for sequence in ([first, secret], (first, [None, secret]), [first, {"folder": secret}]):
        hidden = hide_paths(sequence)
        assert type(hidden) is type(sequence) and hidden[0] is first
        assert "ann" not in str(hidden) and "scans" in str(hidden)


def test_models_that_share_a_file_name_stay_different():
    names = ["/a/net.onnx", "/b/net.onnx", "hf:org/net", "clahe+/c/other.pt", "timm:resnet50"]
    assert names_without_folders(names) == {
        "/a/net.onnx": "net.onnx",
        "/b/net.onnx": "net.onnx (2)",
        "clahe+/c/other.pt": "clahe+other.pt",
    }


# How it is asked for


def test_kinds_are_repeated_or_listed():
    assert hidden_kinds(("names", "names,paths")) == ("paths", "names")
    assert hidden_kinds("names, paths") == ("paths", "names") and hidden_kinds(()) == ()
    with pytest.raises(UsageError, match=r"Unknown value of --hide 'path'\. Did you mean 'paths'"):
        hidden_kinds("path")


def test_the_command_hides(run, private, tmp_path):
    out = tmp_path / "shared.html"
    done = run("report", private, "--hide", "paths", "--hide", "names", "-o", out)
    assert done.status == 0
    hidden = everything(out.read_text("utf-8"))
    assert not [secret for secret in SECRETS.values() if secret in hidden]


def test_a_category_is_given_by_the_model_s_own_name(run, private, tmp_path):
    out = tmp_path / "shared.html"
    model = private.parent / "nets" / "classifier.onnx"
    done = run("report", private, "--hide", "paths", "--category", f"{model}=vit", "-o", out)
    assert done.status == 0 and "Vision transformer" in out.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--hide", "folders"), "Unknown value of --hide 'folders'"),
        (("--hide", "names", "--serve"), "--hide applies to written reports only"),
    ],
)
def test_what_cannot_be_hidden_is_rejected(run, private, arguments, says):
    assert_rejected(run("report", private, *arguments), says)


def test_python_hides_as_the_command_does(private, tmp_path):
    path = report_results(load(private), tmp_path / "mine.html", hide=["paths"])
    hidden = everything(path.read_text("utf-8"))
    assert SECRET not in hidden and NAMES in hidden
