"""Recruiting sites: each declared once, in a file of its own here and one of the pages."""

import re
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import get_args

import pytest

from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart_experiment.recruiters import RECRUITER_SETTINGS, RECRUITERS
from eyechart_experiment.recruiters.recruiter import (
    BadIds,
    Outcome,
    Preview,
    Recruiter,
)
from eyechart_experiment.storage.tokens import make_token, read_token
from eyechart_experiment.study_config import config_from, config_text, read_config
from places import EXPERIMENT, PACKAGE

PAGES = EXPERIMENT / "frontend" / "src"
SITES = list(RECRUITERS.values())
IDS = {
    "link": {"client": "browser-1"},
    "mturk": {
        "assignmentId": "A1", "hitId": "H1", "workerId": "W1",
        "turkSubmitTo": "https://workersandbox.mturk.com/",
    },
    "prolific": {"PROLIFIC_PID": "5f0c", "STUDY_ID": "s1", "SESSION_ID": "x1"},
}  # fmt: skip


def by_name(site: Recruiter) -> str:
    return site.name


def leave(site: Recruiter, outcome: Outcome = "finished", **settings: str):
    stored = site.arrive(IDS[site.name]).ids
    full = dict.fromkeys(RECRUITER_SETTINGS, "") | settings
    return site.complete(stored, full, "OURS", outcome)


def test_there_are_three_and_the_pages_have_a_file_for_each():
    assert list(RECRUITERS) == ["link", "mturk", "prolific"] == list(IDS)
    for folder, suffix in ((PACKAGE / "recruiters", "py"), (PAGES / "recruiters", "ts")):
        stems = {path.stem for path in folder.glob(f"*.{suffix}")}
        assert stems - {"__init__", "index", "recruiter"} == set(RECRUITERS)


@pytest.mark.parametrize("site", SITES, ids=by_name)
def test_every_site_says_what_it_is(site):
    assert site.title and "HOST/s/study" in site.address_help("https://HOST/s/study")
    assert not site.parameters or site.person in site.parameters
    for name, text in site.settings.items():
        assert re.fullmatch(r"[a-z_]+", name) and text.endswith(".")
    for host in (*site.form_hosts, *site.frame_hosts):
        assert re.fullmatch(r"https://[a-z.]+", host)


@pytest.mark.parametrize("site", SITES, ids=by_name)
def test_a_person_is_known_by_the_id_that_stands_for_them(site):
    arrival = site.arrive(IDS[site.name] | {"more": "ignored"})
    assert (arrival.platform, arrival.person) == (site.name, IDS[site.name][site.person])
    assert arrival.ids.keys() == set(site.parameters)


@pytest.mark.parametrize(
    "site, name", [(site, name) for site in SITES for name in IDS[site.name]],
    ids=[f"{site.name}-{name}" for site in SITES for name in IDS[site.name]],
)  # fmt: skip
@pytest.mark.parametrize("value", ["", "a b", "<x>", "é", "a" * 129, None])
def test_ids_that_are_missing_or_odd_are_rejected(site, name, value):
    odd = {key: text for key, text in IDS[site.name].items() if key != name}
    if value is not None:
        odd[name] = value
    with pytest.raises(BadIds, match=name):
        site.arrive(odd)


@pytest.mark.parametrize("site", SITES, ids=by_name)
@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_everybody_gets_a_way_back_and_a_code(site, outcome):
    completion = leave(site, outcome)
    assert completion.code
    filled = {"form": completion.action, "redirect": completion.url, "code": completion.code}
    assert filled[completion.way]


def test_a_plain_link_stores_nothing_and_shows_a_code():
    assert RECRUITERS["link"].arrive(IDS["link"]).ids == {}
    assert asdict(leave(RECRUITERS["link"])) == {
        "way": "code", "code": "OURS", "action": "", "url": "", "fields": {},
    }  # fmt: skip


def test_mechanical_turk_previews_are_nobody_and_forms_go_to_its_hosts_only():
    site = RECRUITERS["mturk"]
    with pytest.raises(Preview):
        site.arrive({"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "H1"})
    for url in ("https://evil.example", "https://www.mturk.com.evil.example", "nowhere"):
        with pytest.raises(BadIds, match="turkSubmitTo"):
            site.arrive(IDS["mturk"] | {"turkSubmitTo": url})
    stub = IDS["mturk"] | {"turkSubmitTo": "http://127.0.0.1:9000/"}
    assert site.arrive(stub, ("http://127.0.0.1:9000",)).ids["turkSubmitTo"][-4:] == "9000"
    done = leave(site)
    assert done.action == "https://workersandbox.mturk.com/mturk/externalSubmit"
    # nothing that the worker's browser could turn into another outcome
    assert done.fields == {"assignmentId": "A1", "code": "OURS"} == leave(site, "failed").fields
    assert site.complete({}, {}, "OURS", "finished").way == "code"


def test_prolific_gets_its_own_codes():
    site = RECRUITERS["prolific"]
    codes = {"prolific_code": "C DONE", "prolific_failed": "CFAIL", "prolific_screened": "CFEW"}
    address = "https://app.prolific.com/submissions/complete?cc="
    assert leave(site, **codes).url == f"{address}C+DONE"
    assert leave(site, "failed", **codes).url == f"{address}CFAIL"
    assert leave(site, "screened-out", **codes).url == f"{address}CFEW"
    missing = leave(site, "failed", prolific_code="C")
    assert (missing.way, missing.code) == ("code", "OURS")
    assert site.warnings(codes) == site.warnings({}) == []
    failed, screened = site.warnings({"prolific_code": "C"})
    assert "--prolific-failed" in failed and "--prolific-screened" in screened
    (same,) = site.warnings(dict.fromkeys(codes, "C"))
    assert "must differ" in same
    assert site.address_help("https://lab.example/s/x") == (
        "https://lab.example/s/x?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}"
        "&SESSION_ID={{%SESSION_ID%}}"
    )


@pytest.mark.parametrize("site", SITES, ids=by_name)
def test_a_visit_from_joining_to_the_way_back(site, tmp_path):
    nothing = {"practice": 0, "qualification": 0, "catch": 0}
    folder = make_study(
        tmp_path / "study", sizes=Sizes(6), trials=1, prolific_code="CDONE", **nothing
    )
    with in_process(folder) as client:
        visitor = Visitor(client, platform=site.name, ids=IDS[site.name]).begin()
        assert visitor.response(visitor.next()["trial"]["id"]).status_code == 200
        completion = visitor.finish().json()["completion"]
    expected = leave(site, prolific_code="CDONE")
    assert completion["way"] == expected.way and completion["url"] == expected.url
    assert completion["action"] == expected.action


def test_the_docs_and_the_server_name_every_site():
    guide = (EXPERIMENT / "docs" / "experiment.md").read_text(encoding="utf-8")
    for site in SITES:
        assert site.title.lower() in guide.lower()
        for name in site.settings:
            assert f"--{name.replace('_', '-')}" in guide


def test_sites_are_named_nowhere_but_in_their_own_files():
    # where the pages fall back to, and what robots come by, is the plain link
    words = re.compile(r"prolific|mturk|mechanical", re.I)
    strays = [
        str(path.relative_to(EXPERIMENT))
        for folder, pattern in ((PACKAGE, "*.py"), (PAGES, "*.ts"))
        for path in folder.rglob(pattern)
        # help texts of commands give examples
        if path.parent.name not in ("recruiters", "cli") and path.name != "wire.ts"
        and words.search(path.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert strays == []


def test_what_the_pages_know_of_the_server_is_current():
    done = subprocess.run(
        [sys.executable, EXPERIMENT / "tools" / "write_wire.py", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_study_s_file_keeps_numbers_as_they_were_and_so_the_digest(tmp_path):
    settings = {
        "name": "old", "title": "Alt ä", "pass_share": 1, "lease_minutes": 20,
        "prolific_code": "C1", "prolific_failed": "",
    }  # fmt: skip
    config = config_from(settings, "a file")
    file = tmp_path / "study.yaml"
    file.write_text(config_text(config), encoding="utf-8")
    assert read_config(file) == config and read_config(file).digest == config.digest
    assert config.digest != config_from(settings | {"pass_share": 0.5}, "a file").digest


def test_a_token_is_valid_with_its_secret_alone():
    token = make_token(b"k" * 32, 7, datetime(2030, 1, 1, tzinfo=UTC))
    claim = read_token(b"k" * 32, token)
    assert (claim.session_id, claim.expires_at) == (7, datetime(2030, 1, 1, tzinfo=UTC))
    assert read_token(b"j" * 32, token) is None
    first = "0" if token[0] != "0" else "1"
    assert read_token(b"k" * 32, first + token[1:]) is None
