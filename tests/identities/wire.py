"""The mock servers, and the form in which requests are written down.

Every connection of urllib3, which all three libraries use, goes to a server on 127.0.0.1. TLS is left out: one server plays all
`https` hosts, another all `http` hosts. So a library uses its true addresses, also link-local ones, and the written request has
the URL that the library would ask in a cloud.
"""

import contextlib
import datetime
import http.server
import json
import re
import socket
import threading
import time
import urllib.parse
from unittest import mock

import jwt
import urllib3.connection

# The HTTP library sets these, not the source of identities.
TRANSPORT_HEADERS = {"accept-encoding", "connection", "content-length", "host", "user-agent"}
# A server gives a token without these: they count the use of a library, or correlate its logs. Only their names are written.
LIBRARY_HEADERS = {
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "client-request-id",
    "return-client-request-id",
    "x-client-cpu",
    "x-client-current-telemetry",
    "x-client-last-telemetry",
    "x-client-os",
    "x-client-sku",
    "x-client-ver",
    "x-goog-api-client",
    "x-ms-client-request-id",
    "x-ms-lib-capability",
}
LIBRARY_PARAMETERS = {"client_info"}
# MSAL asks here for the address of Entra's tokens, and google-auth whether its cloud is the public one.
LIBRARY_URLS = ("/.well-known/openid-configuration", "/v1/universe/universe-domain")

TIME_IN_ANSWER = re.compile(r"<now\+(\d+):(rfc3339|unix)>")
UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


class Wire:
    """Plays scripted answers, and keeps each request with its answer.

    `answers` has a method and an URL without its query as its key, such as `GET http://169.254.169.254/latest/api/token`. Its
    value is the answer to all requests, or a list with an answer to each. An answer is a `dict` with `json` or `text`.
    """

    def __init__(self, answers, public_key):
        self.answers = answers
        self.public_key = public_key
        self.exchanges = []
        self.unexpected = []
        self.lock = threading.Lock()

    def record(self, scheme, handler):
        """Keeps this request, and returns its scripted answer."""
        length = int(handler.headers.get("content-length", 0))
        body = handler.rfile.read(length).decode()
        url = f"{scheme}://{handler.headers['host']}{handler.path}"
        answer = self.answers.get(f"{handler.command} {url.split('?')[0]}")
        with self.lock:
            if isinstance(answer, list):
                asked = sum(exchange["answer"] in answer for exchange in self.exchanges)
                answer = answer[asked] if asked < len(answer) else None
            if answer is None:
                self.unexpected.append(f"{handler.command} {url}")
                return {"status": 404, "text": "not scripted"}
            request = canonical_request(handler.command, url, handler.headers, body, self.public_key)
            exchange = {"request": request, "answer": answer}
            if any(part in url for part in LIBRARY_URLS):
                exchange["only_of_the_library"] = True
            self.exchanges.append(exchange)
        return answer

    @contextlib.contextmanager
    def connected(self):
        """Runs both servers, and leads all connections of urllib3 to them."""
        servers = {scheme: serve(scheme, self) for scheme in ("http", "https")}

        def connect(connection):
            tls = isinstance(connection, urllib3.connection.HTTPSConnection)
            return socket.create_connection(servers["https" if tls else "http"].server_address)

        def leave_tls_out(sock, **_):
            return urllib3.connection._WrappedAndVerifiedSocket(sock, True)

        try:
            with (
                mock.patch.object(urllib3.connection.HTTPConnection, "_new_conn", connect),
                mock.patch.object(urllib3.connection, "_ssl_wrap_socket_and_match_hostname", leave_tls_out),
            ):
                yield
        finally:
            for server in servers.values():
                server.shutdown()
                server.server_close()


def serve(scheme, wire):
    """Starts the server that plays all hosts of this scheme."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            scripted = wire.record(scheme, self)
            body = answer_body(scripted).encode()
            self.send_response(scripted.get("status", 200))
            self.send_header("content-type", "application/json" if "json" in scripted else "text/plain")
            self.send_header("content-length", str(len(body)))
            for name, value in scripted.get("headers", {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server


def answer_body(answer):
    """The text that is sent: times such as `<now+3600:rfc3339>` are filled in."""
    text = json.dumps(answer["json"]) if "json" in answer else answer["text"]

    def fill_in(match):
        instant = int(time.time()) + int(match[1])
        if match[2] == "unix":
            return str(instant)
        return datetime.datetime.fromtimestamp(instant, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    return TIME_IN_ANSWER.sub(fill_in, text)


def canonical_request(method, url, headers, body, public_key):
    """A request as it is written: all that a server decides by, with names for what differs from run to run."""
    names = sorted(name.lower() for name in headers)
    assert len(names) == len(set(names)), f"a header stands twice: {names}"
    address, _, query = url.partition("?")
    request = {"method": method, "url": address}
    if query:
        request["query"] = canonical_pairs(query, public_key)
        # How it is encoded.
        request["query_text"] = query
    kept = [name for name in names if name not in TRANSPORT_HEADERS | LIBRARY_HEADERS]
    request["headers"] = {name: headers[name] for name in kept if (name, headers[name]) != ("accept", "*/*")}
    if "form-urlencoded" in request["headers"].get("content-type", ""):
        request["form"] = canonical_pairs(body, public_key)
        if request["headers"].get("authorization", "").startswith("AWS4"):
            # The signature is over these bytes.
            request["form_text"] = body
    elif "json" in request["headers"].get("content-type", ""):
        request["json"] = json.loads(body)
    elif body:
        request["body"] = body
    only_library = [name for name in names if name in LIBRARY_HEADERS]
    parameters = request.get("form", {})
    only_library += [name for name in sorted(parameters) if name in LIBRARY_PARAMETERS]
    for name in LIBRARY_PARAMETERS & parameters.keys():
        del parameters[name]
    if only_library:
        request["only_of_the_library"] = only_library
    return request


def canonical_pairs(text, public_key):
    pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, strict_parsing=True)
    assert len(pairs) == len(dict(pairs)), f"a parameter stands twice: {text}"
    return {name: canonical_value(name, value, public_key) for name, value in sorted(pairs)}


def canonical_value(name, value, public_key):
    """A parameter's value: an own assertion is taken apart, and an encoded JSON text is decoded."""
    if name in ("assertion", "client_assertion") and value.count(".") == 2 and not value.endswith(".of-the-platform"):
        return {"jwt": canonical_assertion(value, public_key)}
    if name == "subject_token" and value.startswith("%7B"):
        return {"percent_encoded_json": json.loads(urllib.parse.unquote(value))}
    return value


def canonical_assertion(token, public_key):
    """The header and the claims of an assertion, after its signature was verified."""
    header = jwt.get_unverified_header(token)
    claims = jwt.decode(token, public_key, algorithms=[header["alg"]], options={"verify_aud": False})
    issued = claims["iat"]
    assert abs(issued - time.time()) < 30, f"iat is not the time of the request: {issued}"
    for name in ("iat", "nbf", "exp"):
        if name in claims:
            claims[name] = relative_time(claims[name], issued) + (" with a fraction" if claims[name] % 1 else "")
    if UUID.match(claims.get("jti", "")):
        claims["jti"] = "<uuid>"
    return {"header": dict(sorted(header.items())), "claims": dict(sorted(claims.items())), "signature": "verified"}


def relative_time(instant, now=None):
    """`<now+3600>` for an instant in an hour."""
    seconds = round(instant - (time.time() if now is None else now))
    # The mock, the library and this function read the clock one after another.
    rounded = 60 * round(seconds / 60) if now is None else seconds
    return f"<now+{rounded}>" if rounded else "<now>"
