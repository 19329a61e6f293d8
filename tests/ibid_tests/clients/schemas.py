"""Answers of an array against its own OpenAPI document. Prints a summary; an answer that breaks its schema ends it.

schemas.py HOST:PORT SESSION
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.request

from jsonschema_rs import Draft202012Validator

# Lists that must have objects, so that their schemas are checked at all.
FILLED = (
    "alert-watchers arrays audits connections hosts pods policies/snapshot/rules volume-groups volume-snapshots volumes"
)


def main() -> int:
    url, session = f"https://{sys.argv[1]}", sys.argv[2]
    context = ssl._create_unverified_context()

    def get(path: str) -> dict:
        call = urllib.request.Request(url + path, headers={"x-auth-token": session})
        with urllib.request.urlopen(call, context=context, timeout=30) as answer:
            return json.load(answer)

    document = get("/api/2.26/openapi.json")
    calls, found = 0, {}
    for path, methods in document["paths"].items():
        # Tests of the delivery of alerts send something; a name in a path, and a check, need an object.
        if "get" not in methods or path.endswith(("/test", "/pods/check")) or "{" in path:
            continue
        content = methods["get"]["responses"]["200"]["content"]
        if "application/json" not in content:
            continue  # a stream
        schema = content["application/json"]["schema"]
        validator = Draft202012Validator({**schema, "components": document["components"]})
        answer = get(path)
        error = next(validator.iter_errors(answer), None)
        assert error is None, f"GET {path}: {error}"
        calls += 1
        # REST 1.x answers with lists alone.
        items = answer.get("items", []) if path.startswith("/api/2.26/") else []
        found[path.removeprefix("/api/2.26/")] = len(items)
        for item in items[:1]:
            # An answer without one of its fields breaks the schema.
            field = sorted(item)[0]
            wrong = {**answer, "items": [{key: value for key, value in item.items() if key != field}]}
            assert not validator.is_valid(wrong), f"GET {path}: {field} may be missing"
    empty = [name for name in FILLED.split() if not found[name]]
    assert not empty, f"no objects in {empty}"
    print(f"{calls} lists, {sum(found.values())} objects in {sum(map(bool, found.values()))} of them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
