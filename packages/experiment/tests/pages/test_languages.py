"""Texts of the pages: complete in every language, none missing, none left over."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from experiment_studies import in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.design.study_settings import StudyRequest, gather_settings
from eyechart_experiment.languages import FOLDER, LANGUAGES, read_texts
from eyechart_experiment.study_config import GRID, KINDS, StudyConfig
from places import EXPERIMENT, PACKAGE

PAGES = EXPERIMENT / "frontend" / "src"
SERVER = PACKAGE
LITERAL = re.compile(r'"([a-z][\w.-]*)"|`([\w.${} -]*)`|f"(study\.[\w.{}-]*)"')
"""A string of TypeScript, or one of Python that can be the key of a text."""


def literals() -> list[str]:
    """Return all strings of the pages, and those of the server that begin like a key."""
    files = [*PAGES.rglob("*.ts"), *SERVER.rglob("*.py")]
    assert len(files) > 60
    texts = [path.read_text(encoding="utf-8") for path in files]
    return [
        next(filter(None, found)) for text in texts for found in LITERAL.findall(text) if any(found)
    ]


def unused(keys: Iterable[str], strings: Iterable[str]) -> list[str]:
    """Return the keys that no string names, whole, as a stem, or with parts filled in."""
    plain, patterns = set(strings), []
    for string in plain:
        parts = re.split(r"\$?\{[^}]*\}", string)
        # what is left of a key when its parts are filled in later
        if len(parts) > 1 and any(re.search(r"[a-z]{3}\.|\.[a-z]{3}", part) for part in parts):
            patterns.append(re.compile("[^.]+".join(map(re.escape, parts))))
    return [
        key
        for key in keys
        if key not in plain
        and re.sub(r"\.(one|other)$", "", key) not in plain
        and not any(pattern.fullmatch(key) for pattern in patterns)
    ]


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_text_with_the_same_values_to_fill_in(language):
    english, texts = read_texts("en"), read_texts(language)
    assert list(texts) == list(english)
    for key, text in texts.items():
        assert text.strip() == text != ""
        missing = placeholders(english[key]) ^ placeholders(text)
        # a single thing may be counted in words
        assert not missing or (key.endswith(".one") and missing == {"count"}), key


def test_no_text_is_left_over_and_the_check_notices_one_that_is():
    strings = literals()
    assert unused(read_texts("en"), strings) == []
    extra = ["consent.nothing", "rejected.full.footer", "nothing.one", "heading"]
    assert unused(extra, strings) == extra


def test_every_text_that_the_pages_name_exists():
    keys = read_texts("en")
    called = re.compile(r'\b(text|counted)\("([^"]+)"')
    named = [
        f"{key}.other" if function == "counted" else key
        for path in PAGES.rglob("*.ts")
        for function, key in called.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 60 and set(named) <= set(keys)
    choices = {*GRID, "same", "different"}
    for stem in ("category", "feedback.truth"):
        assert {key for key in keys if key.startswith(f"{stem}.")} == {
            f"{stem}.{c}" for c in choices
        }
    for kind in KINDS:
        assert {f"debrief.{kind}.why", f"study.title.{kind}", f"study.consent.{kind}"} <= set(keys)
    arrival = (PAGES / "screens" / "arrival.ts").read_text(encoding="utf-8")
    screens = re.search(r"const SCREENS.*?\};", arrival, re.S)
    names = {*re.findall(r'"([\w-]+)"', screens[0]), "problem"}
    assert len(names) == 6
    for part in ("heading", "text"):
        assert {f"rejected.{name}.{part}" for name in names} <= set(keys)


def test_the_pages_have_no_sentence_of_their_own():
    sentence = re.compile(r'["`](?:[A-Za-z][a-z]*[ ,:]+){2,}[a-z]+[^"`]*["`]')
    comment = re.compile(r"/\*.*?\*/|^\s*//.*?$|[;{,] //.*?$", re.S | re.M)
    found = [
        words
        for path in PAGES.rglob("*.ts")
        for words in sentence.findall(comment.sub("", path.read_text(encoding="utf-8")))
    ]
    # what no participant reads
    errors = [
        "a new token is void", "no mask is ready", "received an image of the wrong size",
        "this browser has no canvas",
    ]  # fmt: skip
    assert sorted(found) == [f'"{error}"' for error in errors]
    assert sentence.search('note("Thank you very much.")')


def test_the_pages_have_every_language():
    listed = re.search(r"const CATALOGUES.*= \{([^}]*)\}", (PAGES / "texts.ts").read_text())
    assert sorted(name.strip() for name in listed[1].split(",")) == sorted(LANGUAGES)
    assert {path.stem for path in FOLDER.glob("*.json")} == set(LANGUAGES) == {"en", "de"}


def test_german_addresses_participants_formally():
    texts = read_texts("de")
    assert not [
        key for key, text in texts.items() if re.search(r"\b([Dd]u|[Dd]ein\w*|[Dd]ich)\b", text)
    ]
    assert sum("Sie" in text or "Ihre" in text for text in texts.values()) > 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_says_its_language_before_any_script_runs(tmp_path, language):
    folder = make_study(tmp_path / "study", language=language)
    with in_process(folder) as client:
        html = client.get("/s/small").text
        assert client.get("/s/other").status_code == 404
    assert f'<html lang="{language}">' in html and "$" not in html
    texts = read_texts(language)
    assert texts["page.title"] in html and texts["page.noscript.text"] in html


def test_a_study_in_german_has_german_default_texts_and_its_own_digest(tmp_path):
    request = StudyRequest(folder=tmp_path / "blur", testset=Path("t.parquet"))
    german = gather_settings(request, {"language": "de"})[0]
    assert german.title == "Was ist auf dem Bild zu sehen?" and "Einwilligung" not in german.consent
    assert german.consent.startswith("Sie sehen Bilder") and german.survey == "eyesight"
    english = gather_settings(request, {})[0]
    assert english.digest != german.digest
    # settings that older studies lack change nothing as long as they are not used
    plain = StudyConfig(name="a", title="b")
    assert plain.digest == StudyConfig(name="a", title="b", institution="").digest
    assert plain.digest != StudyConfig(name="a", title="b", institution="c").digest


@pytest.mark.parametrize("name", ["language", "survey"])
def test_unknown_names_are_rejected_with_those_that_there_are(name):
    with pytest.raises(UsageError, match=f"[Uu]nknown {name} 'xx'"):
        StudyConfig(name="a", title="b", **{name: "xx"})
