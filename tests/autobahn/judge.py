"""Reads a report: as many cases as there must be were run, and none failed."""

import collections
import json
import pathlib
import sys

FINE = {"OK", "NON-STRICT", "INFORMATIONAL"}

report, cases_min = pathlib.Path(sys.argv[1]), int(sys.argv[2])
(cases,) = json.loads((report / "index.json").read_text()).values()
counted = collections.Counter(case["behavior"] for case in cases.values())
print(f"{len(cases)} Autobahn cases:", ", ".join(f"{count} {behavior}" for behavior, count in counted.most_common()))
failed = {name: case for name, case in cases.items() if not {case["behavior"], case["behaviorClose"]} <= FINE}
for name, case in failed.items():
    print(f"{name}: {case['behavior']}, closed: {case['behaviorClose']}, code {case['remoteCloseCode']}")
if failed or len(cases) < cases_min:
    sys.exit(f"{len(failed)} failed, {len(cases)} of at least {cases_min} were run")
