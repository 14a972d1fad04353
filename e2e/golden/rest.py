"""Asks a Java Connect worker what rest.json lists and prints the answers, for golden.sh.

rest.py CONNECT REQUESTS

Documentation in an answer is left out: it is the peer's text. A request is [METHOD, PATH, BODY] with a body of any JSON, a text that is sent as it is, or none; one
with a fourth element is repeated until the answer has that text in it. Of an answer the status, the
Location and the body are kept.
"""

import json
import re
import sys
import time
import urllib.error
import urllib.request


def ask(base, method, path, body):
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        answer = urllib.request.urlopen(request, timeout=90)
    except urllib.error.HTTPError as fault:
        answer = fault
    with answer:
        return answer.status, answer.headers.get("Location"), answer.read().decode()


def plain(value):
    """The answer without prose."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in ("documentation", "display_name")}
    return [plain(one) for one in value] if isinstance(value, list) else value


def placeless(text):
    """An answer names the folders of its plugins; where the recording machine keeps them is nobody's business."""
    return re.sub(r"file:/[^' ]*/plugins/", "file:/plugins/", text)


def main():
    base, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        requests = json.load(file)
    out = []
    for method, path, body, *until in requests:
        end = time.monotonic() + 60
        while True:
            status, location, text = ask(base, method, path, body)
            # A worker whose connectors have just changed answers so until it has settled.
            settled = status != 409 or "momentarily" not in text and "rebalance" not in text
            if settled and (not until or until[0] in text):
                break
            if time.monotonic() > end:
                sys.exit(f"{method} {path}: {status} {text}")
            time.sleep(0.2)
        answer = {"method": method, "path": path, "status": status}
        if body is not None:
            answer["body"] = body
        if until:
            answer["until"] = until[0]
        if location:
            answer["location"] = location.replace(base, "")
        try:
            answer["answer"] = plain(json.loads(placeless(text))) if text else None
        except ValueError:
            answer["text"] = text
        out.append(answer)
    print("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in out) + "\n]")


main()
