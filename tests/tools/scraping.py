#!/usr/bin/env python3
"""Prometheus with many sites under load: gaps, times of scrapes, numbers of series.

    tests/tools/scraping.py [--howdah PROGRAM] [--sites 500] [--minutes 10] [--interval 5]

Starts a server with sites of four lines (as many_sites.py) and a real Prometheus (Debian's package), and lets wrk
request pages of PHP of all sites in random order. At the end it asks Prometheus: were all scrapes successful, and at
their time? How long did they take, and how many series are there? `promtool check metrics` reads the text. As root.
Before that, the metrics are asked for while all sites sleep, and while each has had a request; with --minutes 0 that
is all.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
import urllib.parse
import urllib.request

import many_sites

METRICS, PROMETHEUS = 18982, 18983
# Requests of wrk go to a site of the list each.
RANDOM_HOSTS = """
local hosts = {{{hosts}}}
function init(arguments) math.randomseed(1) end
function request() return wrk.format("GET", "/a", {{Host = hosts[math.random(#hosts)]}}) end
"""


def ask(query):
    """The result of a query of Prometheus."""
    url = f"http://127.0.0.1:{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)["data"]["result"]


def value(query):
    """The one number of a query; not a number if Prometheus has none."""
    found = ask(query)
    return float(found[0]["value"][1]) if found else float("nan")


def prometheus(top, interval):
    """Starts Prometheus with the server as its only target."""
    (top / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": f"{interval}s", "scrape_timeout": f"{interval}s"},
        "scrape_configs": [{"job_name": "howdah", "static_configs": [{"targets": [f"127.0.0.1:{METRICS}"]}]}]}))
    return subprocess.Popen(["prometheus", f"--config.file={top}/prometheus.yml", f"--storage.tsdb.path={top}/data",
                             f"--web.listen-address=127.0.0.1:{PROMETHEUS}", "--log.level=error"])


def scrape(state, process):
    """Asks for the metrics 20 times without a load, and prints how long that took."""
    times = []
    for _ in range(20):
        begun = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{METRICS}/metrics", timeout=60) as response:
            length = len(response.read())
        times.append((time.monotonic() - begun) * 1000)
        time.sleep(0.2)
    times.sort()
    print(f"{state}: {len(list(many_sites.processes(process.pid)))} processes, {length / 1e6:.1f} MB, "
          f"{times[0]:.0f} to {times[-1]:.0f} ms, median {times[len(times) // 2]:.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=many_sites.ROOT / "target" / "release" / "howdah")
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--interval", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        top = pathlib.Path(temporary)
        top.chmod(0o755)
        (top / "sites").mkdir()
        plain = types.SimpleNamespace(shape="plain", users=False)
        hosts = [many_sites.add_site(top, number, plain) for number in range(options.sites)]
        config, control = top / "howdah.json", f"unix:{top}/control.sock"
        address = ":".join(map(str, many_sites.ADDRESS))
        config.write_text(json.dumps({"sites": "sites/*.json", "defaults": {"listen": address, "https": False},
                                      "settings": {"metrics": {"listen": f"127.0.0.1:{METRICS}"}}}))
        server = subprocess.Popen([options.howdah, "serve", "--config", config, "--control", control,
                                   "--state", top / "state", "--log", top / "log"], stdout=subprocess.DEVNULL)
        monitor = None
        try:
            many_sites.wait_for("none.example", server)
            scrape("all sites sleep", server)
            for host in hosts:
                many_sites.get(host)
            scrape("each site had a request", server)
            if options.minutes == 0:
                return
            (top / "hosts.lua").write_text(RANDOM_HOSTS.format(hosts=", ".join(json.dumps(host) for host in hosts)))
            monitor = prometheus(top, options.interval)
            begun, seconds = time.time(), options.minutes * 60
            load = subprocess.run(["wrk", "-t1", "-c8", f"-d{seconds:.0f}s", "--latency", "-s", top / "hosts.lua",
                                   f"http://{address}/"], stdout=subprocess.PIPE, text=True, check=True).stdout
            report(options, load, f"[{time.time() - begun:.0f}s]")
        finally:
            for process in filter(None, (monitor, server)):
                process.send_signal(signal.SIGTERM)
                process.wait()
            if os.environ.get("SHOW_LOG"):
                print((top / "log").read_text()[-3000:])


def report(options, load, past):
    """Prints what wrk and Prometheus say, and ends with status 1 after a gap."""
    print(load)
    ups = ask(f"up{past}")[0]["values"]
    times = [float(at) for at, _ in ups]
    failed = sum(up != "1" for _, up in ups)
    gap = max(later - earlier for earlier, later in zip(times, times[1:]))
    durations = sorted(float(seconds) for _, seconds in ask(f"scrape_duration_seconds{past}")[0]["values"])
    print(f"scrapes: {len(times)}, failed {failed}, longest pause {gap:.2f} s; "
          f"duration median {durations[len(durations) // 2] * 1000:.0f} ms, longest {durations[-1] * 1000:.0f} ms")
    of_sites = '{site!=""}'
    print(f"samples of a scrape: {value('scrape_samples_scraped'):.0f}; series of sites: {value(f'count({of_sites})'):.0f} "
          f"of {value(f'count(count by (site) ({of_sites}))'):.0f} sites")
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS}/metrics", timeout=60) as response:
        text = response.read()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    print(f"text: {len(text) / 1e6:.2f} MB; promtool: {(checked.stdout + checked.stderr).decode() or 'clean'}")
    bad = re.search(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", load)
    if failed or gap > 2 * options.interval or bad or checked.returncode:
        sys.exit(f"not all is well: {bad[0] if bad else 'a gap, or promtool'}")


if __name__ == "__main__":
    main()
