"""Messages that are malformed or ambiguous. The right answer is a refusal and a closed connection."""

from differ.case import chunked, head, raw, refused

NEXT = b"GET /probe.php?smuggled=1 HTTP/1.1\r\nHost: site.test\r\n\r\n"


def posted(name, *fields, body=b"", **options):
    return refused(name, head("POST", "/probe.php", "Content-Type: text/plain", *fields, close=False) + body, methods=("POST",), **options)


def chunks(name, body, **options):
    return posted(name, "Transfer-Encoding: chunked", body=body, **options)


def start(name, line, **options):
    return refused(name, line + b"\r\nHost: site.test\r\n\r\n", **options)


CASES = [
    posted("both length and coding", "Content-Length: 6", "Transfer-Encoding: chunked", body=b"0\r\n\r\nG" + NEXT),
    posted("both coding and length", "Transfer-Encoding: chunked", "Content-Length: 4", body=b"5c\r\n" + NEXT + b"0\r\n\r\n"),
    posted("two lengths that differ", "Content-Length: 5", "Content-Length: 6", body=b"hello!"),
    posted("two lengths that are the same", "Content-Length: 5", "Content-Length: 5", body=b"hello"),
    posted("two lengths in one field", "Content-Length: 5, 5", body=b"hello"),
    posted("length with a sign", "Content-Length: +5", body=b"hello"),
    posted("length that is negative", "Content-Length: -5", body=b"hello"),
    posted("length in hexadecimal", "Content-Length: 0x5", body=b"hello"),
    posted("length with a space inside", "Content-Length: 5 5", body=b"hello"),
    posted("length with letters", "Content-Length: 5a", body=b"hello"),
    posted("length with a fraction", "Content-Length: 5.0", body=b"hello"),
    posted("length empty", "Content-Length:", body=b"hello"),
    posted("length that overflows", "Content-Length: 18446744073709551621", body=b"hello"),
    posted("length of many digits", "Content-Length: " + "9" * 100, body=b"hello"),
    posted("coding unknown", "Transfer-Encoding: xchunked", body=chunked("hello")),
    posted("coding identity", "Transfer-Encoding: identity", "Content-Length: 5", body=b"hello"),
    posted("coding twice", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=chunked("hello")),
    posted("coding chunked, chunked", "Transfer-Encoding: chunked, chunked", body=chunked("hello")),
    posted("coding not last", "Transfer-Encoding: chunked, identity", body=chunked("hello")),
    posted("coding gzip", "Transfer-Encoding: gzip, chunked", body=chunked("hello")),
    posted("coding with a vertical tab", "Transfer-Encoding: \x0bchunked", body=chunked("hello")),
    posted("coding in quotes", 'Transfer-Encoding: "chunked"', body=chunked("hello")),
    posted("coding with a space before the colon", "Transfer-Encoding : chunked", body=chunked("hello")),
    posted("coding on a continued line", "Transfer-Encoding:\r\n chunked", body=chunked("hello")),
    posted("coding empty", "Transfer-Encoding:", body=b""),
    refused("coding over HTTP/1.0", head("POST", "/probe.php", "Transfer-Encoding: chunked", version="1.0", close=False) + chunked("hello"), methods=("POST",)),

    chunks("chunk size that is none", b"zz\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size with a prefix", b"0x5\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size with a sign", b"+5\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size that is negative", b"-5\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size of two numbers", b"5 5\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size with a space before", b" 5\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size with a space after", b"5 \r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size that overflows", b"ffffffffffffffff1\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size of many digits", b"0" * 100 + b"5\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk size empty", b"\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk line with a bare line feed", b"5\nhello\r\n0\r\n\r\n"),
    chunks("chunk line with a bare carriage return", b"5\rhello\r\n0\r\n\r\n"),
    chunks("chunk line with a NUL", b"5\0\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk extension with a line feed", b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk extension with a NUL", b"5;a\0b\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk extension of 100 KB", b"5;" + b"a" * 100_000 + b"\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk longer than announced", b"3\r\nhello\r\n0\r\n\r\n"),
    chunks("chunk shorter than announced", b"8\r\nhello\r\n0\r\n\r\n" + NEXT),
    chunks("chunk without an end of line", b"5\r\nhello0\r\n\r\n"),
    chunks("chunk ended by a bare line feed", b"5\r\nhello\n0\r\n\r\n"),
    chunks("trailer that is malformed", b"5\r\nhello\r\n0\r\nbad trailer\r\n\r\n"),
    raw("length in a trailer means nothing",
        head("POST", "/probe.php", "Content-Type: text/plain", "Transfer-Encoding: chunked", close=False)
        + b"5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n" + head("GET", "/style.css"), methods=("POST", "GET")),

    start("no target", b"GET HTTP/1.1"),
    start("no version", b"GET /hello.txt"),
    start("version in small letters", b"GET /hello.txt http/1.1"),
    start("version with a space", b"GET /hello.txt HTTP/1.1 "),
    start("version without a number", b"GET /hello.txt HTTP/"),
    start("version of three numbers", b"GET /hello.txt HTTP/1.1.1"),
    start("version of two digits", b"GET /hello.txt HTTP/1.10"),
    start("version that is none", b"GET /hello.txt HTTP/x.y"),
    start("version of another protocol", b"GET /hello.txt RTSP/1.0"),
    start("two spaces in the request line", b"GET  /hello.txt HTTP/1.1"),
    start("tab in the request line", b"GET\t/hello.txt\tHTTP/1.1"),
    start("space before the method", b" GET /hello.txt HTTP/1.1"),
    start("method with a colon", b"GE:T /hello.txt HTTP/1.1"),
    start("method with a NUL", b"GET\0 /hello.txt HTTP/1.1"),
    start("target without a slash", b"GET hello.txt HTTP/1.1"),
    start("target of an asterisk", b"GET * HTTP/1.1"),
    start("target of a question mark", b"GET ?a=b HTTP/1.1"),
    start("carriage return in the request line", b"GET /hello.txt\rX HTTP/1.1"),
    refused("HTTP/0.9", b"GET /hello.txt\r\n\r\n"),
    refused("bytes that are no request", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n"),
    refused("preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),

    refused("space before a colon", head("GET", "/hello.txt", "X-Space : 1", close=False)),
    refused("tab before a colon", head("GET", "/hello.txt", "X-Tab\t: 1", close=False)),
    refused("space inside a name", head("GET", "/hello.txt", "X Space: 1", close=False)),
    refused("name empty", head("GET", "/hello.txt", ": 1", close=False)),
    refused("line without a colon", head("GET", "/hello.txt", "NoColon", close=False)),
    refused("continued line", head("GET", "/hello.txt", "X-Fold: a\r\n b", close=False)),
    refused("continued line before any field", b"GET /hello.txt HTTP/1.1\r\n Host: site.test\r\n\r\n"),
    refused("bare carriage return in a value", head("GET", "/hello.txt", "X-Cr: a\rb", close=False)),
    refused("bare line feed between fields", b"GET /hello.txt HTTP/1.1\r\nHost: site.test\nX-A: 1\r\n\r\n"),
    refused("NUL in a value", head("GET", "/hello.txt", "X-Nul: a\0b", close=False)),
    refused("NUL in a name", head("GET", "/hello.txt", "X-N\0ul: a", close=False)),
    refused("control byte in a value", head("GET", "/hello.txt", "X-Control: a\x01b", close=False)),
    refused("delete byte in a value", head("GET", "/hello.txt", "X-Delete: a\x7fb", close=False)),
    refused("byte above ASCII in a name", head("GET", "/hello.txt", "X-\u00fc: 1", close=False)),
    refused("parenthesis in a name", head("GET", "/hello.txt", "X(a): 1", close=False)),
    refused("head that ends early", b"GET /hello.txt HTTP/1.1\r\nHost: site.test\r\n"),

    raw("body on a request for a file is not the next request",
        head("GET", "/hello.txt", "Content-Length: 5", close=False) + b"GET /" + head("GET", "/style.css"), methods=("GET", "GET")),
    raw("body on a missing file is not the next request",
        head("POST", "/missing.txt", "Content-Length: 5", close=False) + b"GET /" + head("GET", "/style.css"), methods=("POST", "GET"), site="plain"),
    raw("chunked body on a request for a file is not the next request",
        head("GET", "/hello.txt", "Transfer-Encoding: chunked", close=False) + chunked("GET /") + head("GET", "/style.css"), methods=("GET", "GET")),
    raw("body on a redirect is not the next request",
        head("GET", "/docs", "Content-Length: 5", close=False) + b"GET /" + head("GET", "/style.css"), methods=("GET", "GET")),
    raw("bytes after a request that closes", head("GET", "/hello.txt") + NEXT, end=True),
]
