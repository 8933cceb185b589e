"""A server and a client of gRPC, by the library of Python.

    grpc_peer.py serve [CHAIN KEY]     prints its port and serves until its input ends
    grpc_peer.py ask ADDRESS           asks all kinds of calls; exits with 0 if all answers are right
"""

import concurrent.futures
import os
import sys
import threading

import grpc

LARGE = 300_000


def unary(message, context):
    metadata = dict(context.invocation_metadata())
    context.send_initial_metadata((("x-begin", "1"), ("x-asked", metadata.get("x-ask", ""))))
    context.set_trailing_metadata((("x-end", "2"), ("x-bytes-bin", b"\x00\xff")))
    return message[::-1]


def fail(_message, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "nothing hère")


def count(message, _context):
    for number in range(int(message)):
        yield b"%d" % number


def collect(messages, _context):
    return b"%d" % sum(len(message) for message in messages)


def chat(messages, _context):
    for message in messages:
        yield b"<" + message + b">"


def serve(arguments):
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Fail": grpc.unary_unary_rpc_method_handler(fail),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Collect": grpc.stream_unary_rpc_method_handler(collect),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
    }
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Peer", handlers),))
    if arguments:
        chain, key = (open(name, "rb").read() for name in arguments)
        credentials = grpc.ssl_server_credentials([(key, chain)])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    os._exit(0)


def same(found, expected):
    if found != expected:
        sys.exit(f"{found!r} and not {expected!r}")


def ask(address):
    channel = grpc.insecure_channel(address)
    call = channel.unary_unary("/test.Peer/Unary")
    answer, told = call.with_call(b"abc", metadata=(("x-ask", "me"),), timeout=30)
    same(answer, b"cba")
    begin, end = dict(told.initial_metadata()), dict(told.trailing_metadata())
    same((begin["x-begin"], begin["x-asked"]), ("1", "me"))
    same((end["x-end"], end["x-bytes-bin"]), ("2", b"\x00\xff"))
    large = os.urandom(LARGE)
    same(call(large, timeout=30), large[::-1])
    same(call(b"", timeout=30), b"")

    try:
        channel.unary_unary("/test.Peer/Fail")(b"", timeout=30)
        sys.exit("no error")
    except grpc.RpcError as error:
        same((error.code(), error.details()), (grpc.StatusCode.NOT_FOUND, "nothing hère"))

    numbers = list(channel.unary_stream("/test.Peer/Count")(b"2000", timeout=60))
    same(numbers, [b"%d" % number for number in range(2000)])
    pieces = (b"x" * 1000 for _ in range(500))
    same(channel.stream_unary("/test.Peer/Collect")(pieces, timeout=60), b"500000")

    # Each message is answered before the next is sent.
    turn = threading.Semaphore(1)

    def messages():
        for number in range(50):
            turn.acquire()
            yield b"%d" % number

    for number, answer in enumerate(channel.stream_stream("/test.Peer/Chat")(messages(), timeout=60)):
        same(answer, b"<%d>" % number)
        turn.release()

    # Many at once.
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for found in pool.map(lambda number: call(b"%d" % number, timeout=60), range(300)):
            int(found)


if __name__ == "__main__":
    {"serve": lambda: serve(sys.argv[2:]), "ask": lambda: ask(sys.argv[2])}[sys.argv[1]]()
