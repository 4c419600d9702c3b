"""A small front door for tests and the demo: drives the browser over CDP and writes to both stores. Standard library only.

POST /runs    {task, thread_id, browser_cdp_url?, schema?, key_prefix?}: opens its own page /done?task=... in the browser given,
              writes the answer to PostgreSQL (table answers in the run's schema) and Redis (<key_prefix>:answer), answers
              {"status": "done", "answer": ...}
GET  /healthz whether the stores it was told of accept connections
GET  /run?url=U, /shot?url=U   opens U in the browser at CDP_URL (or ?cdp=): title and size as JSON, or the PNG
GET  /env     its environment            GET /done?task=T  the page that says so
Environment: PORT=8080, DATABASE_URL, REDIS_URL, START_DELAY_S, FAIL_AT_START (message; exit 3), EAT_MB, READY_TEXT
"""
import base64, hashlib, hmac, html, http.client, http.server, json, os, signal, socket, struct, sys, time
from urllib.parse import parse_qs, quote, unquote, urlparse

ENV = os.environ
if ENV.get("FAIL_AT_START"):
    print("fatal: " + ENV["FAIL_AT_START"], file=sys.stderr, flush=True)
    sys.exit(3)
HOG = [bytearray(os.urandom(1 << 20)) for _ in range(int(ENV.get("EAT_MB", "0")))]
time.sleep(float(ENV.get("START_DELAY_S", "0")))
PORT = int(ENV.get("PORT", "8080"))


class WebSocket:
    """The client half of RFC 6455, as far as CDP needs it."""

    def __init__(self, host, port, path):
        self.socket = socket.create_connection((host, port), 10)
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.socket.sendall(f"{head}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.stream = self.socket.makefile("rb")
        status = self.stream.readline()
        while self.stream.readline().strip():
            pass
        if b" 101 " not in status:
            raise RuntimeError(status)
        self.calls = 0

    def call(self, method, **params):
        self.calls += 1
        data = json.dumps({"id": self.calls, "method": method, "params": params}).encode()
        mask, size = os.urandom(4), len(data)
        head = bytes([0x81]) + (
            bytes([0x80 | size]) if size < 126
            else bytes([0xFE]) + struct.pack(">H", size) if size < 65536
            else bytes([0xFF]) + struct.pack(">Q", size))
        self.socket.sendall(head + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(data)))
        while True:
            message = self.receive()
            if message.get("id") == self.calls:
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message["result"]

    def receive(self):
        buffer = b""
        while True:
            first, second = self.stream.read(2)
            size = second & 127
            if size == 126:
                size = struct.unpack(">H", self.stream.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.stream.read(8))[0]
            data = self.stream.read(size)
            if first & 15 in (0, 1):
                buffer += data
            if first & 128 and first & 15 in (0, 1):
                return json.loads(buffer)


def open_page(cdp, url):
    """Opens `url` in a tab that stays open, waits until it is loaded, and returns (title, PNG)."""
    base = urlparse(cdp)
    # Chromium refuses a Host header that is neither an address nor localhost: a name is resolved first.
    host, port = socket.gethostbyname(base.hostname), base.port or 9222
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("PUT", "/json/new?" + quote(url, safe=":/?&=,"))
    reply = connection.getresponse()
    body = reply.read()
    if reply.status != 200:
        raise RuntimeError(f"{cdp}: {reply.status} {body[:200]!r}")
    page = WebSocket(host, port, "/devtools/page/" + json.loads(body)["id"])
    for _ in range(300):
        state = page.call("Runtime.evaluate", expression="document.readyState+'|'+location.href+'|'+document.title")
        ready, href, title = state["result"]["value"].split("|", 2)
        if ready == "complete" and href != "about:blank":
            break
        time.sleep(0.02)
    return title, base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"])


class Postgres:
    """A PostgreSQL v3 connection with SCRAM-SHA-256: simple queries only."""

    def __init__(self, url):
        at = urlparse(url)
        self.user, self.password = unquote(at.username), unquote(at.password or "")
        self.socket = socket.create_connection((at.hostname, at.port or 5432), 5)
        self.stream = self.socket.makefile("rb")
        start = struct.pack(">i", 196608)
        for word in ("user", self.user, "database", at.path.lstrip("/") or self.user):
            start += word.encode() + b"\0"
        start += b"\0"
        self.socket.sendall(struct.pack(">i", len(start) + 4) + start)
        self.handshake()

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack(">i", len(body) + 4) + body)

    def read(self):
        kind = self.stream.read(1)
        size = struct.unpack(">i", self.stream.read(4))[0]
        body = self.stream.read(size - 4)
        if kind == b"E":
            raise RuntimeError(body.replace(b"\0", b" ").decode(errors="replace"))
        return kind, body

    def handshake(self):
        nonce = base64.b64encode(os.urandom(18)).decode()
        bare = f"n=,r={nonce}"
        while True:
            kind, body = self.read()
            if kind == b"Z":
                return
            if kind != b"R":
                continue
            method = struct.unpack(">i", body[:4])[0]
            if method == 10:
                first = ("n,," + bare).encode()
                self.send(b"p", b"SCRAM-SHA-256\0" + struct.pack(">i", len(first)) + first)
            elif method == 11:
                self.send(b"p", self.proof(bare, body[4:].decode()))
            elif method not in (0, 12):
                raise RuntimeError(f"authentication method {method} is not spoken here")

    def proof(self, bare, server):
        fields = dict(part.split("=", 1) for part in server.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        client = hmac.digest(salted, b"Client Key", "sha256")
        final = f"c=biws,r={fields['r']}"
        signature = hmac.digest(hashlib.sha256(client).digest(), f"{bare},{server},{final}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, signature))).decode()
        return f"{final},p={proof}".encode()

    def query(self, sql):
        self.send(b"Q", sql.encode() + b"\0")
        rows = []
        while True:
            kind, body = self.read()
            if kind == b"Z":
                return rows
            if kind == b"D":
                rows.append(body)


def redis(url, *words):
    at = urlparse(url)
    with socket.create_connection((at.hostname, at.port or 6379), 5) as connection:
        command = f"*{len(words)}\r\n" + "".join(f"${len(w.encode())}\r\n{w}\r\n" for w in words)
        connection.sendall(command.encode())
        reply = connection.recv(4096)
    if reply.startswith(b"-"):
        raise RuntimeError(reply)
    return reply


def run(body):
    task = body.get("task", "")
    answer = "done: " + task
    if body.get("browser_cdp_url"):
        # The browser is another container: it reaches this page by this container's own address.
        here = socket.gethostbyname(socket.gethostname())
        open_page(body["browser_cdp_url"], f"http://{here}:{PORT}/done?task={quote(task)}")
    schema, prefix = body.get("schema"), body.get("key_prefix")
    if schema and ENV.get("DATABASE_URL"):
        quoted = '"' + schema.replace('"', '""') + '"'
        value = answer.replace("'", "''")
        database = Postgres(ENV["DATABASE_URL"])
        database.query(f"CREATE SCHEMA IF NOT EXISTS {quoted}; CREATE TABLE IF NOT EXISTS {quoted}.answers (text text);")
        database.query(f"INSERT INTO {quoted}.answers VALUES ('{value}')")
    if prefix and ENV.get("REDIS_URL"):
        redis(ENV["REDIS_URL"], "SET", prefix + ":answer", answer)
    print(f"run {body.get('thread_id')}: {answer}", flush=True)
    return {"status": "done", "answer": answer}


def look(query, picture):
    cdp = query.get("cdp") or ENV.get("CDP_URL", "http://browser:9222")
    title, png = open_page(cdp, query.get("url", "data:text/html,<title>t</title>hi"))
    return (png, "image/png") if picture else ({"title": title, "png": len(png)}, "application/json")


def unreachable():
    bad = []
    for name in ("DATABASE_URL", "REDIS_URL"):
        if name in ENV:
            at = urlparse(ENV[name])
            try:
                socket.create_connection((at.hostname, at.port), 1).close()
            except OSError as error:
                bad.append(f"{name}: {error}")
    return bad


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        at = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(at.query).items()}
        if at.path == "/healthz":
            bad = unreachable()
            return self.reply(503 if bad else 200, {"ok": not bad, "bad": bad})
        if at.path == "/env":
            return self.reply(200, dict(ENV))
        if at.path in ("/run", "/shot"):
            return self.guarded(lambda: look(query, at.path == "/shot"))
        if at.path == "/done":
            page = f"<!doctype html><title>done</title><h1>done: {html.escape(query.get('task', ''))}</h1>"
            return self.reply(200, page.encode(), "text/html")
        if at.path == "/":
            return self.reply(200, b"<!doctype html><title>front door</title><h1>front door</h1>", "text/html")
        return self.reply(404, {"error": "no such path"})

    def do_POST(self):
        size = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        if urlparse(self.path).path != "/runs":
            return self.reply(404, {"error": "no such path"})
        return self.guarded(lambda: (run(body), "application/json"))

    def guarded(self, work):
        try:
            body, kind = work()
        except Exception as error:  # whatever it is, the caller sees it rather than a cut connection
            return self.reply(502, {"error": f"{type(error).__name__}: {error}"})
        return self.reply(200, body, kind)

    def log_message(self, form, *args):
        print(form % args, flush=True)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print(ENV.get("READY_TEXT", "front door listening"), flush=True)
Server(("0.0.0.0", PORT), Handler).serve_forever()
