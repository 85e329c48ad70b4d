"""What tests of reports may ask for: reports and pages of small runs, each made once."""

import pytest

from report_pages import KINDS, maker


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Return what makes the report and the page of a kind of runs."""
    return maker(tmp_path_factory)


@pytest.fixture(params=KINDS)
def any_page(request, made):
    """The report and the page of every kind of runs."""
    return made(request.param)
