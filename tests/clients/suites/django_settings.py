"""Settings and a runner for Django's own tests: the databases' ports come from the environment, outcomes go to a file."""

import json
import os
import unittest
import warnings

from django.db.backends.postgresql.features import DatabaseFeatures
from django.test.runner import DiscoverRunner


# Meridian has no database "postgres", over which Django asks whether the test database is there.
warnings.filterwarnings("ignore", "Normally Django will use a connection to the 'postgres' database")


def database(port):
    name = os.environ.get("SUITE_DATABASE", "meridian")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": port,
        "USER": "root",
        "NAME": name,
        "TEST": {"NAME": name},
    }


DATABASES = {"default": database(os.environ["SUITE_PORT"]), "other": database(os.environ["SUITE_OTHER_PORT"])}
SECRET_KEY = "not a secret"
USE_TZ = False
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
TEST_RUNNER = "django_settings.Runner"

if os.environ.get("SUITE_LACKS"):
    # Without these whole apps could not make their tables. The tests of what is lacking count as failed: they are skipped.
    DatabaseFeatures.supports_deferrable_unique_constraints = False
    DatabaseFeatures.test_collations = dict.fromkeys(DatabaseFeatures.test_collations, "C")


class Outcomes(unittest.TextTestResult):
    kept = {}

    def note(self, test, outcome, error=None):
        text = self._exc_info_to_string(error, test) if error else ""
        known = self.kept.get(test.id())
        if known is None or known[0] == "pass":
            self.kept[test.id()] = (outcome, text)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "pass")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "error", error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failure", error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.note(test, "failure", error)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skip")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.note(test, "pass")


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Outcomes

    def run_suite(self, suite, **kwargs):
        try:
            return super().run_suite(suite, **kwargs)
        finally:
            with open(os.environ["SUITE_OUTCOMES"], "w") as file:
                json.dump(Outcomes.kept, file, indent=0)
