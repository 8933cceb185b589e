"""The memory of a program of another project, in which its tables of directives are found."""

import struct

RELATIVE = {62: 8, 183: 1027}  # the relocation "base + addend" of x86-64 and AArch64


class Image:
    """The memory of a program as it is after it was loaded at address 0."""

    def __init__(self, path):
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian program")
        machine, = struct.unpack_from("<H", data, 18)
        phoff, = struct.unpack_from("<Q", data, 32)
        phentsize, phnum = struct.unpack_from("<HH", data, 54)
        headers = [struct.unpack_from("<IIQQQQQQ", data, phoff + n * phentsize) for n in range(phnum)]
        size = max(address + length for kind, _, _, address, _, _, length, _ in headers if kind == 1)
        self.memory = bytearray(size)
        for kind, _, offset, address, _, length, _, _ in headers:
            if kind == 1:
                self.memory[address:address + length] = data[offset:offset + length]
        for kind, _, _, address, _, length, _, _ in headers:
            if kind == 2:
                self.relocate(address, length, RELATIVE[machine])

    def relocate(self, dynamic, length, relative):
        tags = dict(struct.unpack_from("<QQ", self.memory, dynamic + n) for n in range(0, length - 15, 16))
        table, size = tags.get(7, 0), tags.get(8, 0)
        for entry in range(table, table + size, 24):
            offset, info, addend = struct.unpack_from("<QQq", self.memory, entry)
            if info & 0xFFFFFFFF == relative:
                struct.pack_into("<q", self.memory, offset, addend)
        # Its addends are no pointers of the program. Those of the compact form (DT_RELR) are in place.
        self.memory[table:table + size] = bytes(size)

    def word(self, address):
        if not 0 <= address <= len(self.memory) - 8:
            return 0
        return struct.unpack_from("<Q", self.memory, address)[0]

    def text(self, address):
        if not 0 < address < len(self.memory):
            return ""
        end = self.memory.find(b"\0", address, address + 100)
        return self.memory[address:end].decode("ascii", "replace") if end > 0 else ""

    def places(self, value):
        """The aligned places that hold this word."""
        pattern, found, at = struct.pack("<Q", value), [], -1
        while (at := self.memory.find(pattern, at + 1)) >= 0:
            if at % 8 == 0:
                found.append(at)
        return found
