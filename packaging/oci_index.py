#!/usr/bin/env python3
"""Makes one image of those for several architectures.

    packaging/oci_index.py OUT IMAGE...    each a tar archive in OCI's layout with one manifest, as packaging/oci makes it

A registry and a container engine take the manifest of their architecture from it. The same images give the same bytes.
"""

import hashlib
import io
import json
import sys
import tarfile

INDEX = "application/vnd.oci.image.index.v1+json"
NAME = "org.opencontainers.image.ref.name"


def read(path):
    """The blobs of an image by their names, its manifest with the platform, and its tag."""
    with tarfile.open(path) as tar:
        files = {member.name.removeprefix("./"): tar.extractfile(member).read() for member in tar if member.isfile()}
    [descriptor] = json.loads(files.pop("index.json"))["manifests"]
    tag = descriptor.pop("annotations")[NAME]

    def blob(digest):
        return json.loads(files["blobs/" + digest.replace(":", "/")])

    config = blob(blob(descriptor["digest"])["config"]["digest"])
    descriptor["platform"] = {key: config[key] for key in ("architecture", "os", "variant") if key in config}
    return {name: content for name, content in files.items() if name.startswith("blobs/")}, descriptor, tag


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    out, *images = sys.argv[1:]
    blobs, manifests, tags = {}, [], set()
    for image in images:
        files, descriptor, tag = read(image)
        blobs |= files
        manifests.append(descriptor)
        tags.add(tag)
    if len(tags) != 1:
        print(f"the images have different tags: {', '.join(sorted(tags))}", file=sys.stderr)
        return 1
    if len({json.dumps(manifest["platform"], sort_keys=True) for manifest in manifests}) != len(manifests):
        print("two images are for the same architecture", file=sys.stderr)
        return 1
    manifests.sort(key=lambda manifest: manifest["platform"]["architecture"])
    inner = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}, sort_keys=True).encode()
    digest = hashlib.sha256(inner).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = inner
    descriptor = {"mediaType": INDEX, "digest": f"sha256:{digest}", "size": len(inner), "annotations": {NAME: tags.pop()}}
    files = blobs | {
        "index.json": json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]}, sort_keys=True).encode(),
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
