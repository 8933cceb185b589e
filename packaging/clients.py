"""Clients of a server in a machine, which run in its network."""

import subprocess
import sys
import urllib.parse

# Runs in the network of the machine: requests on new connections and on kept ones until a line arrives on
# standard input, then prints their number and each failure.
LOAD = r'''
import http.client, sys, threading
failures, count, lock, ended = [], [0], threading.Lock(), threading.Event()
def client(keep):
    connection = None
    while not ended.is_set():
        fresh = connection is None
        try:
            connection = connection or http.client.HTTPConnection("127.0.0.1", 80, timeout=30)
            connection.request("GET", "/index.php")
            response = connection.getresponse()
            body = response.read()
            closes = not keep or response.will_close
            with lock:
                count[0] += 1
                if response.status != 200 or not body.startswith(b"PHP "):
                    failures.append(f"status {response.status}: {body[:80]!r}")
        except Exception as error:
            closes = True
            # A server may close a kept connection between two requests; browsers send them again.
            is_close = not fresh and isinstance(error, (http.client.RemoteDisconnected, ConnectionResetError,
                                                        BrokenPipeError))
            with lock:
                if not is_close:
                    failures.append(f"{type(error).__name__}: {error}")
        if closes:
            connection.close()
            connection = None
threads = [threading.Thread(target=client, args=(number % 2,)) for number in range(6)]
[thread.start() for thread in threads]
sys.stdin.readline()
ended.set()
[thread.join() for thread in threads]
print(count[0])
print("\n".join(failures[:20]))
'''


class Load:
    """Clients that send requests from start to end."""

    def __init__(self, host):
        self.process = host.beside([sys.executable, "-c", LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True)

    def end(self):
        """Returns the number of requests and the failures."""
        output, _ = self.process.communicate("end\n", timeout=120)
        count, *failures = output.strip("\n").split("\n")
        return int(count), [failure for failure in failures if failure]


# Sends one request in the network of the machine: address, port, target, name of the host, and the body of a form, if
# there is one.
REQUEST = r'''
import http.client, sys
address, port, target, name, *form = sys.argv[1:]
host = {"Host": name} if name else {}
connection = http.client.HTTPConnection(address, int(port), timeout=60)
if form:
    connection.request("POST", target, form[0], {"Content-Type": "application/x-www-form-urlencoded", **host})
else:
    connection.request("GET", target, headers=host)
response = connection.getresponse()
print(response.status)
print(response.read().decode())
'''


def get(host, target, port=80, address="127.0.0.1", name=""):
    """Status and body of a response of the machine's server."""
    return request(host, port, target, address=address, name=name)


def post(host, target, fields, port=80):
    """Status and body of the response to a form."""
    return request(host, port, target, urllib.parse.urlencode(fields))


def request(host, port, target, *form, address="127.0.0.1", name=""):
    process = host.beside([sys.executable, "-c", REQUEST, address, str(port), target, name, *form],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, errors = process.communicate(timeout=90)
    if process.returncode:
        raise AssertionError(f"{target}: {errors.strip().splitlines()[-1:]}")
    status, body = output.split("\n", 1)
    return int(status), body
