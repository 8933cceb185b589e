"""Lists the directives of an installed nginx, by module, from its program file.

A module is a structure `ngx_module_t` of the program: its signature (a text such as "8,4,8,0001...")
leads to it, and it leads to the table of its directives (`ngx_command_t`). The names of modules are an
array of their own, in the order of the array of modules.
"""

import re
import struct

RELATIVE = {62: 8, 183: 1027}  # the relocation "base + addend" of x86-64 and AArch64
SIGNATURE = re.compile(rb"[0-9]+,[0-9]+,[0-9]+,[01]{20,60}\0")


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


def commands(image, table):
    """The names of a table of directives."""
    names = []
    while (length := image.word(table)) and 0 < length < 64:
        names.append(image.text(image.word(table + 8)))
        table += 56
    return names


def run(place, holds):
    """The number of words from a place on for which this holds."""
    length = 0
    while holds(place + length * 8):
        length += 1
    return length


def directives(path):
    """{name of a module: its directives}, in the order of the program."""
    image = Image(path)
    # ngx_module_t: five words, the version, the signature, the context, the table of directives.
    modules = {place - 48: image.word(place + 16)
               for match in SIGNATURE.finditer(bytes(image.memory))
               for place in image.places(match.start()) if image.word(place - 8)}
    if not modules:
        raise ValueError(f"{path} has no modules of nginx")
    is_name = lambda place: re.fullmatch(r"ngx_[a-z0-9_]+", image.text(image.word(place)))
    core = re.finditer(rb"ngx_core_module\0", bytes(image.memory))
    starts = [place for match in core for place in image.places(match.start())]
    names = max(starts, key=lambda place: run(place, is_name))
    is_module = lambda place: image.word(place) in modules
    starts = [place for module in modules for place in image.places(module) if not is_module(place - 8)]
    array = max(starts, key=lambda place: run(place, is_module))
    length = run(array, is_module)
    return {image.text(image.word(names + n * 8)): commands(image, modules[image.word(array + n * 8)])
            for n in range(length)}


def commands(image, table):
    """The names of a table of directives."""
    names = []
    while (length := image.word(table)) and 0 < length < 64:
        names.append(image.text(image.word(table + 8)))
        table += 56
    return names


def run(place, holds):
    """The number of words from a place on for which this holds."""
    length = 0
    while holds(place + length * 8):
        length += 1
    return length


def directives(path):
    """{name of a module: its directives}, in the order of the program."""
    image = Image(path)
    # ngx_module_t: five words, the version, the signature, the context, the table of directives.
    modules = {place - 48: image.word(place + 16)
               for match in SIGNATURE.finditer(bytes(image.memory))
               for place in image.places(match.start()) if image.word(place - 8)}
    if not modules:
        raise ValueError(f"{path} has no modules of nginx")
    core = re.finditer(rb"ngx_core_module\0", bytes(image.memory))
    names = next(place for match in core for place in image.places(match.start()))
    array = next(place for module in modules for place in image.places(module)
                 if image.word(place + 8) in modules and image.word(place - 8) not in modules)
    found = {}
    while image.word(array) in modules:
        found[image.text(image.word(names))] = commands(image, modules[image.word(array)])
        array, names = array + 8, names + 8
    return found


if __name__ == "__main__":
    import pathlib
    import sys
    for module, names in directives(pathlib.Path(sys.argv[1])).items():
        print(module, *names)
