#!/usr/bin/env python3
"""Tests of ports.py."""

import socket
import struct
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import free_port  # noqa: E402

# Of linux/in.h; Python has no name for it.
IP_LOCAL_PORT_RANGE = 51


class Ports(unittest.TestCase):
    def test_no_port_is_given_twice(self):
        ports = [free_port() for _ in range(300)]
        self.assertEqual(len(set(ports)), 300)

    def test_a_server_listens_at_a_reserved_port(self):
        with socket.create_server(("127.0.0.1", free_port())) as server:
            with socket.create_connection(server.getsockname()):
                pass

    def test_nobody_else_is_given_a_reserved_port(self):
        port = free_port()
        with socket.socket() as other, self.assertRaises(OSError):
            other.bind(("127.0.0.1", port))

    def test_a_server_at_an_address_of_its_own_is_not_given_a_reserved_port(self):
        port = free_port()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                other.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port << 16 | port))
            except OSError:
                self.skipTest("Linux before 6.3 cannot restrict the ports of a socket")
            with self.assertRaises(OSError):
                other.bind(("127.44.3.4", 0))


if __name__ == "__main__":
    unittest.main()
