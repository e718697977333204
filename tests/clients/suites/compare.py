"""Of the tests that pass on PostgreSQL, how many pass on another server, and what the others fail with.

    compare.py POSTGRESQL OTHER

Each is a file of pytest's (--junitxml), or a directory of the outcomes that django_settings.py writes.
"""

import collections
import json
import os
import re
import sys
import xml.etree.ElementTree


def outcomes(path):
    if os.path.isdir(path):
        files = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".json")]
        return {test: outcome for name in files for test, outcome in json.load(open(name)).items()}
    found = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        # The name of a test has the server's version in it.
        test = re.sub(r"_postgresql\+psycopg_\d+_\d+", "", f"{case.get('classname')} {case.get('name')}")
        worst = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        if test not in found or found[test][0] == "pass":
            found[test] = ("pass", "") if worst is None else (worst.tag, worst.text or "")
    return found


def cause(text):
    """The last line that names an error, without numbers."""
    lines = re.findall(r"^(?:E +)?(?:[\w.]*\()?[\w.]*(?:Error|Exception|Warning|errors\.\w+)\b.*", text, re.M)
    return re.sub(r"\d+", "N", lines[-1] if lines else text.strip()[-100:])[:140]


def main():
    wanted, got = outcomes(sys.argv[1]), outcomes(sys.argv[2])
    passing = [test for test, (outcome, _) in wanted.items() if outcome == "pass"]
    missing = {test: got.get(test, ("not run", "not run")) for test in passing}
    failing = {test: outcome for test, outcome in missing.items() if outcome[0] != "pass"}
    passed = len(passing) - len(failing)
    print(f"{passed} of {len(passing)}, {100 * passed / max(1, len(passing)):.1f} %")
    causes = collections.Counter(cause(text) or outcome for outcome, text in failing.values())
    for told, count in causes.most_common(25):
        print(f"{count:6} {told}")


main()
