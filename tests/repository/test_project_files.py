"""Files for contributors and adopters: workflows, the action, the conda recipe, the paper."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement

from eyechart.core.version import __version__
from places import EXPERIMENT, ROOT
from small_models import save_images

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
CONDA_NAMES = {
    "matplotlib": "matplotlib-base",
    "opencv-python-headless": "py-opencv",
    "torch": "pytorch",
}
"""Packages that conda-forge calls otherwise than pip."""


def read(*parts):
    return yaml.safe_load(ROOT.joinpath(*parts).read_text("utf-8"))


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_workflows_are_tests_documentation_and_release():
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "test"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_unless_a_job_says_otherwise(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    # YAML reads the key "on" as true
    assert "pull_request_target" not in workflow[True]
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for step in steps_of(workflow):
        assert step.keys() & {"uses", "run"}
        # text of others, such as a title, could run commands in a script
        assert "${{ github." not in step.get("run", "")
        assert "secrets." not in str(step)
        assert "@" in step.get("uses", "@")


def test_every_python_version_that_is_classified_is_tested():
    rows = read(".github", "workflows", "test.yml")["jobs"]["test"]["strategy"]["matrix"]["include"]
    prefix = "Programming Language :: Python :: 3."
    classified = [
        f"3.{line.removeprefix(prefix)}" for line in project()["classifiers"] if prefix in line
    ]
    assert [row["python"] for row in rows] == classified == ["3.11", "3.12", "3.13"]
    assert project()["requires-python"] == f">={classified[0]}"


def test_workflows_and_hooks_call_targets_and_programs_that_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    called = [
        word
        for path in WORKFLOWS
        for target in re.findall(r"(?:make|target:) ([a-z ]+)", path.read_text("utf-8"))
        for word in target.split()
    ]
    assert {"test", "frontend", "beside", "docs"} == set(called)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in called)
    (local,) = read(".pre-commit-config.yaml")["repos"]
    hooks = {hook["id"]: hook["entry"].split() for hook in local["hooks"]}
    assert local["repo"] == "local"
    assert hooks.keys() == {"ruff-check", "ruff-format", "codespell", "words"}
    dev = {Requirement(text).name for text in project()["optional-dependencies"]["dev"]}
    assert {entry[0].removeprefix(".venv/bin/") for entry in hooks.values()} <= dev
    assert (ROOT / hooks["words"][-1]).is_file()


def test_a_release_is_published_without_a_password():
    publish = read(".github", "workflows", "release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    (step,) = (step for step in publish["steps"] if "pypi-publish" in step["uses"])
    assert "with" not in step


@pytest.mark.parametrize(("tag", "status"), [(f"v{__version__}", 0), ("v99.0", 1)])
def test_a_release_stops_if_its_tag_is_not_the_version(tmp_path, tag, status):
    steps = steps_of(read(".github", "workflows", "release.yml"))
    (script,) = (step["run"] for step in steps if "TAG" in step.get("env", {}))
    done = bash(script, tmp_path, {"TAG": tag}, cwd=ROOT)
    assert done.returncode == status, done.stderr


def bash(script, home, variables, cwd):
    """Run a script as GitHub does, with `python` and `eyechart` of this environment."""
    programs = home / "programs"
    programs.mkdir(exist_ok=True)
    for name, module in (("python", ""), ("eyechart", "-m eyechart")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (programs / name).chmod(0o755)
    (home / "script.sh").write_text(script)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(home / "script.sh")],
        env={**os.environ, **variables, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        cwd=cwd, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a small run, in a folder with a space in its name."""
    import eyechart as ec

    home = tmp_path_factory.mktemp("the action")
    images = save_images(home / "images", each=10)
    out = home / "a run"
    few = {"bins": 3, "min_per_bin": 2, "n_bootstrap": 10, "stimulus": "native", "n": 48}
    results = ec.evaluate(
        "small_models:colors", images, corruptions=["brightness"], humans="none", out=out, **few
    )
    results.save(out)
    return out


def action_step(name):
    (step,) = (step for step in read("action.yml")["runs"]["steps"] if step["name"] == name)
    return step


def run_action(finished, home, **inputs):
    """Run the action's script with its declared defaults and variables, as GitHub sets them."""
    declared = read("action.yml")["inputs"]
    values = {name: text.get("default", "") for name, text in declared.items()}
    values |= {"run": str(finished)} | inputs
    step = action_step("Run the gate")
    variables = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: values[match.group(1)], text)
        for name, text in step["env"].items()
    }
    (home / "temp").mkdir()
    files = {name: home / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.touch()
    variables |= {name: str(file) for name, file in files.items()}
    variables |= {"RUNNER_TEMP": str(home / "temp"), "GITHUB_ACTIONS": "true", "CI": "true"}
    done = bash(step["run"], home, variables, cwd=home)
    return done, *(file.read_text("utf-8") for file in files.values())


def write_rules(home, limit):
    file = home / "the rules.yaml"
    file.write_text(f"- name: light\n  corruptions: [brightness]\n  at_least: {limit}\n")
    return str(file)


@pytest.mark.parametrize(
    ("limit", "status", "outcome"), [(0.3, 0, "pass"), (0.95, 1, "inconclusive")]
)
def test_the_action_writes_summary_outputs_and_junit(finished, tmp_path, limit, status, outcome):
    rules = tmp_path / "the rules.yaml"
    rules.write_text(
        f"- {{name: light, corruptions: [brightness], at_least: {limit}}}\n"
        "- {name: same, corruptions: all, no_worse_than_old: {margin: 0.5}}\n"
    )
    asked = {"rules": str(rules), "junit": "out put.xml", "against": str(finished)}
    done, summary, outputs = run_action(finished, tmp_path, **asked)
    assert done.returncode == status, done.stderr
    assert summary.startswith("### ") and "| light | brightness |" in summary
    assert "old − 0.5" in summary
    assert outputs.splitlines() == [f"outcome={outcome}", "junit=out put.xml"]
    (suite,) = ElementTree.parse(tmp_path / "out put.xml").getroot().iter("testsuite")
    assert [case.get("name") for case in suite.iter("testcase")] == ["light", "same"]


def test_the_action_stops_with_a_sentence_at_bad_input(finished, tmp_path):
    rules = "$(touch hacked)"
    done, summary, outputs = run_action(finished, tmp_path, rules=rules)
    assert (done.returncode, summary, outputs) == (2, "", "")
    assert rules in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    ("package", "installed"),
    [
        ("eyechart[demo]>=0.1; x", ["eyechart[demo]>=0.1; x"]),
        # what the action's own repository has, also while no index has a release
        ("", ["--editable", "/actions/eyechart"]),
    ],
)
def test_the_action_installs_what_was_asked_for(tmp_path, package, installed):
    step = action_step("Install eyechart")
    python = tmp_path / "programs" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        env={
            "PATH": path,
            "PACKAGE": package or read("action.yml")["inputs"]["package"]["default"],
            "GITHUB_ACTION_PATH": "/actions/eyechart",
        },
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = ["-m", "pip", "install", "--disable-pip-version-check", *installed]
    assert done.stdout.splitlines() == words


def test_inputs_of_the_action_reach_its_scripts_as_variables_only():
    for step in read("action.yml")["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_issue_forms_ask_for_what_is_needed():
    forms = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    assert len(forms) == 2
    for path in forms:
        form = yaml.safe_load(path.read_text("utf-8"))
        assert form.keys() >= {"name", "description", "body"}
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids)) and all(f["attributes"]["label"] for f in form["body"])


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = read("conda", "recipe.yaml")
    wanted = {f"python {project()['requires-python']}"}
    for text in project()["dependencies"]:
        need = Requirement(text)
        wanted.add(f"{CONDA_NAMES.get(need.name, need.name)} {need.specifier}")
    assert set(recipe["requirements"]["run"]) == wanted
    assert recipe["context"]["version"] == __version__
    (command,) = project()["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(command)]
    assert recipe["about"]["license"] == project()["license"]
    assert recipe["source"] == {"path": ".."}


def test_both_distributions_have_one_version():
    text = (EXPERIMENT / "pyproject.toml").read_text("utf-8")
    experiment = tomllib.loads(text)["project"]
    assert experiment["version"] == __version__
    assert f"eyechart>={__version__}" in experiment["dependencies"]
    assert experiment["license"] == project()["license"]


def test_the_citation_is_of_this_version():
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (__version__, project()["license"])


def test_the_paper_cites_all_of_its_references_and_no_others():
    paper = (ROOT / "paper.md").read_text("utf-8")
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper.bib").read_text("utf-8"), re.MULTILINE)
    _, head, body = paper.split("---\n", 2)
    assert set(re.findall(r"@(\w+)", body)) == set(entries) and len(entries) == len(set(entries))
    assert yaml.safe_load(head)["bibliography"] == "paper.bib"
    assert {"# Summary", "# Statement of need", "# References"} <= set(body.splitlines())
    # the journal's limits
    assert 400 < len(body.split()) < 1750
    cited = {entry["title"] for entry in read("CITATION.cff")["references"]}
    titles = re.findall(r"title = \{(.*)\},", (ROOT / "paper.bib").read_text("utf-8"))
    assert cited <= set(titles)


def test_yaml_files_follow_their_published_schemas():
    if shutil.which("check-jsonschema") is None:
        pytest.skip("no check-jsonschema: make validate installs it in an environment of its own")
    script = ROOT / "tests" / "support" / "schemas_check.sh"
    done = subprocess.run(["sh", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_workflow_does_not_follow_its_schema(tmp_path):
    if shutil.which("check-jsonschema") is None:
        pytest.skip("no check-jsonschema: make validate installs it in an environment of its own")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(json.dumps({"on": "push", "jobs": {"a": {"step": []}}}))
    command = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(wrong)]
    assert subprocess.run(command, capture_output=True).returncode == 1


def test_documented_installations_work_from_a_clone():
    """No index has a release yet: docs/tutorial/install.md says where its command will stand."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    texts = {page.name: " ".join(page.read_text("utf-8").split()) for page in pages}
    named = {
        (name, extra)
        for name, text in texts.items()
        if name != "CHANGELOG.md"
        for extra in re.findall(r"pip install (?:-e )?.{0,2}eyechart(?:\[(.*?)\])?", text)
    }
    assert named == {("install.md", "demo")}
    found = {
        name
        for text in texts.values()
        for extras in re.findall(r"pip install -e \\?[\"']\.\[(.*?)\]", text)
        for name in extras.split(",")
    }
    assert {"demo", "cloud", "ray"} <= found <= set(extras())


def test_the_table_of_extras_is_complete():
    table = (ROOT / "docs" / "tutorial" / "install.md").read_text("utf-8")
    assert set(re.findall(r"`\.\[(\w+)\]`", table)) >= set(extras()) - {"coverage"}


def extras():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]


def test_eyechart_and_its_demo_bring_neither_web_server_nor_database():
    own = project()
    extras = own["optional-dependencies"]
    waiting = [Requirement(text) for text in (*own["dependencies"], *extras["demo"])]
    required = set()
    while waiting:
        requirement = waiting.pop()
        name = requirement.name.lower()
        if name in required:
            continue
        required.add(name)
        try:
            texts = requires(name) or []
        except PackageNotFoundError:
            # an alternative for another platform
            continue
        names = [{"extra": extra} for extra in requirement.extras] or [{"extra": ""}]
        waiting += [
            further
            for further in map(Requirement, texts)
            if further.marker is None or any(further.marker.evaluate(each) for each in names)
        ]
    assert {"torch", "typer", "pyarrow"} <= required
    assert not required & {"fastapi", "sqlalchemy", "uvicorn", "starlette", "eyechart-experiment"}
