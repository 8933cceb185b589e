"""Request bodies: forms, uploads, other types, chunked coding, Expect."""

from differ.case import Wait, chunked, get, head, multipart, post, raw, request

PROBE = "/probe.php"
KIND = "multipart/form-data; boundary=frontier"


def upload(name, *parts, **options):
    return post(name, PROBE, multipart(*parts), kind=options.pop("kind", KIND), **options)


def transfer(name, body, *fields, method="POST", target=PROBE, kind="text/plain", **options):
    sent = head(method, target, f"Content-Type: {kind}", "Transfer-Encoding: chunked", *fields) + body
    return raw(name, sent, methods=(method,), **options)


BIG = b"0123456789abcdef" * 65536

CASES = [
    post("form", PROBE, "a=1&b=two&c[]=3&c[]=4"),
    post("form with encodings", PROBE, "a=%C3%BC+b%26&c%5Bd%5D=%00"),
    post("form in UTF-8, not encoded", PROBE, "a=\u00c3\u00bc"),
    post("form with a charset", PROBE, "a=1", kind="application/x-www-form-urlencoded; charset=UTF-8"),
    post("form with its type in capitals", PROBE, "a=1", kind="APPLICATION/X-WWW-FORM-URLENCODED"),
    post("form without a value", PROBE, "a"),
    post("form empty", PROBE, ""),
    post("form of 1,500 names", PROBE, "&".join(f"n{i}={i}" for i in range(1500))),
    post("form of 100 KB", PROBE, "a=" + "x" * 100_000),
    post("form of 9 MB", PROBE, b"a=" + b"x" * 9_000_000),
    post("form with a name that is too deep", PROBE, "a" + "[x]" * 70 + "=1"),
    request("form with PUT", "PUT", PROBE, "Content-Type: application/x-www-form-urlencoded", body="a=1"),
    request("form with PATCH", "PATCH", PROBE, "Content-Type: application/x-www-form-urlencoded", body="a=1"),
    request("body without a type", "POST", PROBE, body="a=1"),
    post("body of an empty type", PROBE, "a=1", kind=""),
    post("JSON", PROBE, '{"a": [1, 2, {"b": null}]}', kind="application/json"),
    post("JSON to the front controller", "/api/items?x=1", '{"a": 1}', kind="application/json"),
    post("XML", PROBE, "<a/>", kind="text/xml"),
    post("binary", PROBE, bytes(range(256)), kind="application/octet-stream"),
    post("binary of 1 MB", PROBE, BIG, kind="application/octet-stream"),
    post("binary of 20 MB", PROBE, BIG * 20, kind="application/octet-stream"),
    *(post(f"binary of {n} bytes", PROBE, b"z" * n, kind="application/octet-stream") for n in (65535, 65536, 99000, 200000)),
    post("forged FastCGI records in a body", PROBE, (b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0" * 4096), kind="application/octet-stream"),
    post("body to a file", "/hello.txt", "a=1"),
    post("body of 9 MB to a file", "/hello.txt", b"x" * 9_000_000, kind="text/plain"),
    post("body to a script that does not read it", "/scripts/respond.php?do=tiny", b"x" * 300_000, kind="text/plain"),

    upload("one file", ("file", "a.txt", "text/plain", "content of a")),
    upload("file and values", ("name", None, None, "value"), ("file", "a.txt", "text/plain", "content"), ("list[]", None, None, "1"), ("list[]", None, None, "2")),
    upload("two files of one name", ("file[]", "a.txt", "text/plain", "aaa"), ("file[]", "b.txt", "text/plain", "bbbb")),
    upload("two files with keys", ("f[x]", "a.txt", "text/plain", "aaa"), ("f[y]", "b.txt", "text/plain", "bbbb")),
    upload("no file chosen", ("file", "", "application/octet-stream", "")),
    upload("file that is empty", ("file", "empty.txt", "text/plain", "")),
    upload("file with a path as its name", ("file", "../../etc/passwd", "text/plain", "x")),
    upload("file with a path of another system", ("file", "C:\\\\dir\\\\a.txt", "text/plain", "x")),
    upload("file with a directory", ("file", "dir/sub/a.txt", "text/plain", "x")),
    upload("file with a name in UTF-8", ("file", "\u00c3\u00bc.txt", "text/plain", "x")),
    upload("file without a type", ("file", "a.bin", None, "x")),
    upload("binary file of 1 MB", ("file", "a.bin", "application/octet-stream", BIG)),
    upload("file of 3 MB, above upload_max_filesize", ("file", "a.bin", "application/octet-stream", BIG * 3), ("after", None, None, "1")),
    upload("files of 9 MB, above post_max_size", ("file", "a.bin", "application/octet-stream", BIG * 9)),
    upload("25 files, above max_file_uploads", *((f"f{i}", f"{i}.txt", "text/plain", f"{i}") for i in range(25))),
    upload("1,200 values, above max_input_vars", *((f"n{i}", None, None, "v") for i in range(1200))),
    upload("MAX_FILE_SIZE that is exceeded", ("MAX_FILE_SIZE", None, None, "5"), ("file", "a.txt", "text/plain", "more than five")),
    upload("boundary in quotes", ("a", None, None, "1"), kind='multipart/form-data; boundary="frontier"'),
    upload("boundary missing", ("a", None, None, "1"), kind="multipart/form-data"),
    upload("boundary that is another", ("a", None, None, "1"), kind="multipart/form-data; boundary=other"),
    post("parts that end too early", PROBE, multipart(("a", None, None, "1"))[:-20], kind=KIND),
    post("part without a name", PROBE, "--frontier\r\nContent-Disposition: form-data\r\n\r\nx\r\n--frontier--\r\n", kind=KIND),
    post("part without a head", PROBE, "--frontier\r\n\r\nx\r\n--frontier--\r\n", kind=KIND),
    post("parts between text", PROBE, "before\r\n--frontier\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--frontier--\r\nafter", kind=KIND),
    post("part with a head of 20 KB", PROBE, "--frontier\r\nContent-Disposition: form-data; name=a\r\nX: " + "y" * 20000 + "\r\n\r\nx\r\n--frontier--\r\n", kind=KIND),
    post("parts and the stream of the body", "/scripts/info.php?ask=input-twice", multipart(("a", None, None, "1")), kind=KIND),
    request("upload with PUT", "PUT", PROBE, f"Content-Type: {KIND}", body=multipart(("file", "a.txt", "text/plain", "x"))),

    transfer("chunked", chunked("hello ", "world")),
    transfer("chunked form", chunked("a=1&", "b=2"), kind="application/x-www-form-urlencoded"),
    transfer("chunked upload", chunked(multipart(("file", "a.txt", "text/plain", "content"))), kind=KIND),
    transfer("chunked, empty", chunked()),
    transfer("chunked, 1 MB in pieces", chunked(*[BIG[:65536]] * 16)),
    transfer("chunked, byte by byte", chunked(*"byte by byte")),
    transfer("chunked with an extension", b"5;name=value\r\nhello\r\n0\r\n\r\n"),
    transfer("chunked with a quoted extension", b'5;name="a b"\r\nhello\r\n0\r\n\r\n'),
    transfer("chunked with trailers", chunked("hello", trailer="X-Trailer: 1\r\n"), "Trailer: X-Trailer"),
    transfer("chunked with zeros before the size", b"0005\r\nhello\r\n000\r\n\r\n"),
    transfer("chunked with size in capitals", b"A\r\n0123456789\r\n0\r\n\r\n"),
    transfer("chunked with PUT", chunked("put"), method="PUT"),
    transfer("chunked to a file", chunked("x"), target="/hello.txt"),
    transfer("chunked to the front controller", chunked("x"), target="/api"),
    raw("two chunked requests at once",
        head("POST", PROBE, "Content-Type: text/plain", "Transfer-Encoding: chunked", close=False) + chunked("one")
        + head("POST", PROBE, "Content-Type: text/plain", "Transfer-Encoding: chunked") + chunked("two"), methods=("POST", "POST")),

    raw("expect 100", (head("POST", PROBE, "Content-Type: text/plain", "Content-Length: 5", "Expect: 100-continue"), Wait(for_continue=True), b"hello"), methods=("POST",)),
    raw("expect 100 in capitals", (head("POST", PROBE, "Content-Type: text/plain", "Content-Length: 5", "Expect: 100-CONTINUE"), Wait(for_continue=True), b"hello"), methods=("POST",)),
    raw("expect 100, chunked", (head("POST", PROBE, "Content-Type: text/plain", "Transfer-Encoding: chunked", "Expect: 100-continue"), Wait(for_continue=True), chunked("hello")), methods=("POST",)),
    raw("expect 100, body sent at once", head("POST", PROBE, "Content-Type: text/plain", "Content-Length: 5", "Expect: 100-continue") + b"hello",
        methods=("POST",), ignore=("interim",)),
    get("expect 100 without a body", PROBE, "Expect: 100-continue", ignore=("interim",)),
    post("expect something else", PROBE, "hello", "Expect: miracles", kind="text/plain", ignore=("interim",)),
    raw("body in slow pieces", (head("POST", PROBE, "Content-Type: text/plain", "Content-Length: 10"), Wait(0.1), b"hello", Wait(0.1), b"world"), methods=("POST",)),
    raw("head in slow pieces", (b"GET /hello", Wait(0.05), b".txt HT", Wait(0.05), b"TP/1.1\r\nHost: site.test\r", Wait(0.05), b"\nConnection: close\r\n\r\n")),
    raw("body shorter than announced", (head("POST", PROBE, "Content-Type: text/plain", "Content-Length: 10") + b"hello", Wait(0.1)),
        methods=("POST",), patience=1.0, end=True),
]
