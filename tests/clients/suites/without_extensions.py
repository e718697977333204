"""A pytest plugin: with SUITE_LACKS SQLAlchemy's suite does not make the extensions without which it would not begin.

The tests that need them fail.
"""

import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    from sqlalchemy.dialects.postgresql import provision

    if os.environ.get("SUITE_LACKS"):
        provision._extensions.clear()
