"""UDP: a server that repeats what comes, and clients that send the next datagram when they have their answer.

    datagrams.py serve PORT
    datagrams.py ask PORT CLIENTS SECONDS
"""

import json
import select
import socket
import sys
import time

DATAGRAM = b"x" * 64
# Seconds after which a datagram or its answer is lost, and the next one is sent.
LOST = 1.0


def serve(port):
    """Repeats each datagram to its sender."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        listener.bind(("127.0.0.1", port))
        room = bytearray(65536)
        while True:
            count, sender = listener.recvfrom_into(room)
            listener.sendto(room[:count], sender)


def ask(port, count, seconds):
    """Clients that ask for some seconds; prints the figures."""
    poll, clients = select.epoll(), {}
    for _ in range(count):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.setblocking(False)
        client.connect(("127.0.0.1", port))
        poll.register(client, select.EPOLLIN)
        clients[client.fileno()] = client
    room, times, lost, errors = bytearray(65536), [], 0, 0
    begun = time.monotonic()
    sent = dict.fromkeys(clients, begun)
    for client in clients.values():
        client.send(DATAGRAM)
    while (now := time.monotonic()) < begun + seconds:
        for number, _ in poll.poll(0.1):
            client = clients[number]
            try:
                client.recv_into(room)
                now = time.monotonic()
                times.append(now - sent[number])
                sent[number] = now
                client.send(DATAGRAM)
            except OSError:
                errors += 1
        for number, at in sent.items() if len(times) % 1000 < 2 else ():
            if now > at + LOST:
                lost += 1
                sent[number] = now
                clients[number].send(DATAGRAM)
    took = time.monotonic() - begun
    times.sort()
    share = (lambda part: times[min(int(len(times) * part), len(times) - 1)]) if times else (lambda _: None)
    print(json.dumps({"requests": len(times), "seconds": took, "p50": share(0.5), "p99": share(0.99), "lost": lost, "errors": errors}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        ask(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
