"""The server as its own description says it is: asked by a program that reads nothing else."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from experiment_studies import Visitor, in_process, make_study

SOUND = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
OPEN = [
    ("GET", "/healthz"),
    ("GET", "/s/{name}"),
    ("GET", "/assets/{file}"),
    ("GET", "/api/studies/{name}"),
    ("POST", "/api/studies/{name}/arrivals"),
    ("POST", "/api/studies/{name}/sessions"),
]
SIGNED = [
    ("GET", "/api/session"),
    ("POST", "/api/session/tab"),
    ("POST", "/api/trials"),
    ("GET", "/api/images/{image}"),
    ("PUT", "/api/trials/{trial}/response"),
    ("POST", "/api/session/finish"),
]
DEEP = [each for each in OPEN + SIGNED if "{" in each[1] and "{file}" not in each[1]]
# the server remembers what it was told, and a machine may be busy
EASY = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
QUICK = settings(max_examples=10, derandomize=True, **EASY)
LONG = settings(max_examples=300, **EASY)


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """Give somebody who has begun the study and whose trials the server hands out."""
    with in_process(make_study(tmp_path_factory.mktemp("api") / "study")) as client:
        yield Visitor(client).begin()


@pytest.fixture(scope="module")
def api(visitor):
    return schemathesis.openapi.from_asgi("/api/openapi.json", visitor.client.app)


def try_out(api, operation, how_long, check):
    """Call `check` with requests as described, and with others that break the description."""
    method, path = operation
    found = api[path][method]
    for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
        if mode == GenerationMode.NEGATIVE and path == "/healthz":
            continue  # it takes nothing, so nothing about it can be wrong
        how_long(given(found.as_strategy(generation_mode=mode))(check))()


def ask(api, operation, how_long, visitor):
    def check(case):
        # again, since one of the requests may have made another tab the one that counts
        visitor.claim()
        # within the case, so that a request is not thought broken for headers it does not have
        case.headers.update(visitor.headers)
        reply = case.call()
        # too large is a rejection as good as any, but not one that the last check knows
        case.validate_response(reply, checks=SOUND[:-1] if reply.status_code == 413 else SOUND)

    try_out(api, operation, how_long, check)


def ask_of_what_is_there(api, operation, how_long, visitor):
    """Ask with the study's name and a trial that is out, so that all the rest is looked at."""

    def check(case):
        visitor.claim()
        step = visitor.next()
        if step["trial"] is None:
            # all images were seen: another person comes
            visitor.ids = None
            step = visitor.begin().next()
        trial = step["trial"]
        own = {"trial": trial["id"], "image": trial["images"][0], "name": "small"}
        case.path_parameters = {name: own[name] for name in case.path_parameters}
        reply = case.call_and_validate(headers=visitor.headers, checks=SOUND[:-1])
        replies.append(reply.status_code)

    replies = []
    try_out(api, operation, how_long, check)
    # 401: leaving a header out is one of the ways to break the description
    assert set(replies) <= {200, 201, 401, 409, 413, 422}
    assert 200 in replies or 422 in replies


def test_every_route_is_asked(api):
    described = [(each.ok().method.upper(), each.ok().path) for each in api.get_all_operations()]
    assert sorted(described) == sorted(OPEN + SIGNED)


@pytest.mark.parametrize("operation", OPEN + SIGNED)
def test_whatever_is_asked_the_server_responses_as_it_says(api, operation, visitor):
    ask(api, operation, QUICK, visitor)


@pytest.mark.parametrize("operation", DEEP)
def test_whatever_is_asked_of_what_is_there_the_server_responses_as_it_says(
    api, operation, visitor
):
    ask_of_what_is_there(api, operation, QUICK, visitor)


@pytest.mark.parametrize("operation", SIGNED)
def test_nothing_is_told_to_whoever_has_no_token(api, operation):
    def check(case):
        reply = case.call_and_validate(checks=[*SOUND[:-1], ignored_auth])
        # 422: a body that is no JSON is rejected before anybody looks who sent it
        assert reply.status_code in (401, 422)

    try_out(api, operation, QUICK, check)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPEN + SIGNED)
def test_whatever_is_asked_for_long_the_server_responses_as_it_says(api, operation, visitor):
    ask(api, operation, LONG, visitor)


@pytest.mark.slow
@pytest.mark.parametrize("operation", DEEP)
def test_for_long_too(api, operation, visitor):
    ask_of_what_is_there(api, operation, LONG, visitor)
