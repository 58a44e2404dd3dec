"""A hub on this machine for tests: python3 hub_server.py FOLDER.

FOLDER/models/OWNER/NAME/... and FOLDER/datasets/OWNER/NAME/... are its repositories. The hub is at http://127.0.0.1:A,
and its large files lie at http://localhost:B; FOLDER/ports gets "A B" once both answer. Every request is a line of
FOLDER/requests: hub or store, method, path, range, authorization. FOLDER/behaviour.json is read anew at each request:
  token     refuses requests without it, as of gated repositories
  no_blobs  tells neither sizes nor hashes in the list of files
  names     more names in the list of files
  size      what the list tells as the size of large files
  corrupt   turns a byte of large files
  stall     sends that many bytes of a large file, and then no more
  cut       as many answers with a large file end after half of it
"""
import hashlib
import http.server
import json
import os
import pathlib
import re
import sys
import threading
import time

FOLDER = pathlib.Path(sys.argv[1])
LARGE = (".safetensors", ".parquet")
LOCK = threading.Lock()
CUT = [0]


def behaviour():
    path = FOLDER / "behaviour.json"
    return json.loads(path.read_text()) if path.exists() else {}


def commit_of(repo):
    return hashlib.sha1(str(repo.relative_to(FOLDER)).encode()).hexdigest()


def describe(path, name):
    content = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    told = {"rfilename": name, "size": len(content), "blobId": blob}
    if name.endswith(LARGE):
        size = behaviour().get("size", len(content))
        told["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": size, "pointerSize": 130}
        told["size"] = size
    return told


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kind = "hub"

    def log_message(self, *_):
        with LOCK, open(FOLDER / "requests", "a") as log:
            log.write(" ".join([self.kind, self.command, self.path, self.headers.get("Range", "-"),
                                self.headers.get("Authorization", "-")]) + "\n")

    def answer(self, status, headers=(), body=b"", length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split("?")[0]
        if behaviour().get("token") and self.headers.get("Authorization") != "Bearer " + behaviour()["token"]:
            code = 403 if self.headers.get("Authorization") else 401
            return self.answer(code, [("X-Error-Code", "GatedRepo")])
        if found := re.fullmatch(r"/api/(models|datasets)/(.+)/revision/([^/]+)", path):
            return self.list_files(FOLDER / found[1] / found[2], found[3])
        if found := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([0-9a-f]{40})/(.+)", path):
            repo = FOLDER / ("datasets" if found[1] else "models") / found[2]
            if repo.is_dir() and commit_of(repo) == found[3] and (repo / found[4]).is_file():
                return self.give(repo, found[4])
        self.answer(404, [("X-Error-Code", "EntryNotFound")])

    def list_files(self, repo, revision):
        if not repo.is_dir():
            return self.answer(404, [("X-Error-Code", "RepoNotFound")])
        if revision not in ("main", "v1", commit_of(repo)):
            return self.answer(404, [("X-Error-Code", "RevisionNotFound")])
        siblings = [describe(path, str(path.relative_to(repo))) for path in sorted(repo.rglob("*")) if path.is_file()]
        if behaviour().get("no_blobs"):
            siblings = [{"rfilename": told["rfilename"]} for told in siblings]
        siblings += [{"rfilename": name} for name in behaviour().get("names", [])]
        self.answer(200, body=json.dumps({"sha": commit_of(repo), "siblings": siblings}).encode())

    def give(self, repo, name):
        told = describe(repo / name, name)
        commit = ("X-Repo-Commit", commit_of(repo))
        if "lfs" in told:
            place = f"http://localhost:{self.server.store}/{(repo / name).relative_to(FOLDER)}"
            return self.answer(302, [commit, ("Location", place), ("X-Linked-Etag", f'"{told["lfs"]["sha256"]}"'),
                                     ("X-Linked-Size", str(told["size"]))])
        self.answer(200, [commit, ("ETag", f'"{told["blobId"]}"')], (repo / name).read_bytes())


class Store(Handler):
    kind = "store"

    def do_GET(self):
        content = bytearray((FOLDER / self.path[1:]).read_bytes())
        told = behaviour()
        if told.get("corrupt"):
            content[len(content) // 3] ^= 1
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])[1]) if "Range" in self.headers else 0
        headers = [("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")] if start else []
        body = bytes(content[start:])
        with LOCK:
            cut = CUT[0] < told.get("cut", 0)
            CUT[0] += cut
        if cut:
            body = body[:len(body) // 2]
        if "stall" in told:
            body = body[:told["stall"]]
        self.answer(206 if start else 200, headers, body, len(content) - start)
        self.wfile.flush()
        while "stall" in behaviour():
            time.sleep(0.02)
        self.close_connection = cut or "stall" in told


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # clients are killed in the middle here


def serve(handler):
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


store = serve(Store)
hub = serve(Handler)
hub.store = store.server_port
(FOLDER / "ports.new").write_text(f"{hub.server_port} {store.server_port}")
os.rename(FOLDER / "ports.new", FOLDER / "ports")
while True:
    time.sleep(3600)
