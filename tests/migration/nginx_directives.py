"""Lists the directives of an installed nginx, by module, from its program file.

A module is a structure `ngx_module_t` of the program: its signature (a text such as "8,4,8,0001...")
leads to it, and it leads to the table of its directives (`ngx_command_t`). The names of modules are an
array of their own, in the order of the array of modules.
"""

import re

from program_image import Image

SIGNATURE = re.compile(rb"[0-9]+,[0-9]+,[0-9]+,[01]{20,60}\0")


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


if __name__ == "__main__":
    import pathlib
    import sys
    for module, names in directives(pathlib.Path(sys.argv[1])).items():
        print(module, *names)
