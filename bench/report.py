"""The report of a run: from the data to Markdown and plots. No I/O."""

import figures
import fleet
import memory
import plot
import servers
import sites
from tables import count, markdown, mebibytes, micro, milli, times
from workloads import AIMS, SWEEP

TWIN = ("howdah", "howdah-again")
GROUPS = {
    "files": "Files",
    "php": "PHP",
    "crowd": "1,000 connections, 4 PHP processes",
    "behind": "Requests that are passed on",
    "stream": "Connections and datagrams that are passed on",
    "tls": "TLS and HTTP/2",
    "worker": "Worker mode",
    "wordpress": "WordPress",
    "cache": "Pages from a cache",
    "observability": "Observability",
    "fpm": "`howdah fpm` in place of PHP-FPM",
    "ab": "Files, by ab",
}
# Clients that are not called as their program.
PROGRAMS = {"handshakes": "ab (one for each processor)", "http2": "h2load", "datagrams": "bench/datagrams.py", "storm": "wrk"}
METRIC_NAMES = {"rate": "requests/s", "cpu": "processor time a request", "p99": "p99", "p50": "p50"}


def make(data):
    """The report: its Markdown and {file name: SVG}."""
    pictures = {}
    parts = [*machine_part(data), *summary_part(data), *aims_part(data)]
    for group, title in GROUPS.items():
        found = [one for one in data["workloads"] if one["group"] == group and one["rounds"]]
        if found:
            parts += group_part(group, title, found, pictures)
    parts += sweep_part(data, pictures)
    parts += memory_part(data, pictures)
    parts += memory_part(data, pictures, "fpm-memory", "Memory of `howdah fpm` in place of PHP-FPM")
    parts += pools_part(data, pictures)
    parts += sites_part(data, pictures)
    parts += fleet_part(data)
    parts += websockets_part(data)
    parts += tls_memory_part(data)
    return "\n".join(parts), pictures


def names_of(workload):
    """The servers that were measured, in the usual order."""
    seen = {name for one in workload["rounds"] for name in one}
    return [name for name in servers.KINDS if name in seen]


def machine_part(data):
    """The machine, the programs, and how the run was made."""
    facts = [*data["machine"].items(), *((servers.title_of(name), version) for name, version in data["versions"].items() if version)]
    yield "## The machine\n"
    yield markdown(["what", "value"], facts)
    yield (f"Measured {data['started']}: {data['options']['rounds']} interleaved rounds of {data['options']['seconds']:g} s "
           "each; client and server share the processors.\n")


def summary_part(data):
    """Ratios of Howdah to each peer, with its spread against itself."""
    found = [one for one in data["workloads"]
             if one["rounds"] and "howdah" in one["rounds"][0] and not one["group"].startswith("sweep")]
    if not found:
        return
    peers = [name for name in servers.KINDS if name not in TWIN and any(name in names_of(one) for one in found)]
    rows = []
    for one in found:
        rows.append([one["title"] + (" (ab)" if one["client"] == "ab" else ""), spread_of(one),
                     *(times(figures.ratio(one["rounds"], "howdah", name)) for name in peers)])
    yield "## Howdah's requests per second, as a multiple of each peer's\n"
    yield ("The second column says what chance does in this run: smallest and largest ratio of Howdah to a second "
           "Howdah that is set up alike.\n")
    yield markdown(["work", "itself", *(servers.title_of(name) for name in peers)], rows)


def spread_of(workload, metric="rate", own="howdah"):
    """The spread of Howdah against itself, in words."""
    found = figures.spread(workload["rounds"], own, f"{own}-again", metric)
    return f"{found[0]:.2f}–{found[1]:.2f}" if found else "–"


def aims_part(data):
    """The aims, and the results."""
    by_id = {one["id"]: one for one in data["workloads"] if one["rounds"]}
    rows = []
    for aim in AIMS:
        one = by_id.get(aim.workload)
        if not one:
            continue
        found = [value for value in (figures.ratio(one["rounds"], aim.own, peer, aim.metric) for peer in aim.peers) if value]
        if not found:
            continue
        least = aim.metric == "rate"
        value = min(found) if least else max(found)
        met = value >= aim.bound if least else value <= aim.bound
        rows.append([one["title"], METRIC_NAMES[aim.metric], f"{'at least' if least else 'at most'} {aim.text}",
                     times(value), spread_of(one, aim.metric, aim.own), "yes" if met else "**no**"])
    if rows:
        yield "## Aims\n"
        yield markdown(["work", "figure", "aim", "reached", "itself", "met"], rows)


def group_part(group, title, workloads, pictures):
    """A table for each workload of a group, and one plot of all."""
    name = f"{group}.svg"
    panels = [(one["title"], [(server, servers.title_of(server), found["rate"], found["lowest"], found["highest"])
                              for server in names_of(one) for found in [figures.summary(one["rounds"], server)]])
              for one in workloads]
    pictures[name] = plot.bars(title, panels, "Requests per second: median (bar), smallest and largest (thin line); more is better.")
    yield f"## {title}\n"
    yield f"![{title}: requests per second](benchmarks/{name})\n"
    for one in workloads:
        yield workload_part(one)


def workload_part(one):
    """The table of one workload."""
    rows = []
    own = next((name for name in names_of(one) if name.startswith("howdah")), "howdah")
    for name in names_of(one):
        found = figures.summary(one["rounds"], name)
        ratio = figures.ratio(one["rounds"], own, name) if name != own else None
        row = [servers.title_of(name), count(found["rate"]), times(ratio), micro(found["cpu"]),
               milli(found["p50"]), milli(found["p99"]), failed(found), count(found["starved"])]
        if one.get("beside"):
            row.append(count(found["beside"]))
        if one["ideal"]:
            good = (found["requests"] - found["non_2xx"]) / (found["requests"] + found["errors"] + found["timeouts"])
            row.append(times(found["seconds"] / (one["ideal"] * good) if good else None))
        rows.append(row)
    columns = ["server", "requests/s", "Howdah is", "CPU µs/request", "p50 ms", "p99 ms", "failed", "starved"]
    if one.get("beside"):
        columns.append("misses/s")
    if one["ideal"]:
        columns.append("of ideal time")
    said = f"{PROGRAMS.get(one['client'], one['client'])}, {one['connections']} connection{'s' if one['connections'] > 1 else ''}, {one['workers']} PHP processes"
    if one.get("beside"):
        said += f", beside {one['beside']} connections that ask for new addresses"
    if one["stretch"] > 1:
        said += f", rounds of {one['stretch']} times the length"
    notes = []
    if one["discarded"]:
        notes.append(f"disturbed rounds discarded: {one['discarded']}")
    if one["doubtful"]:
        notes.append(f"disturbed rounds kept, as no calmer ones came: {one['doubtful']} of {len(one['rounds'])}")
    if one.get("memory"):
        notes.append("memory of all processes afterwards: " + ", ".join(
            f"{servers.title_of(name)} {mebibytes(used)} MiB" for name, used in one["memory"].items()))
    notes += [f"not measured: {servers.title_of(name)}" for name in one["failures"]]
    tail = "".join(f" {note[0].upper()}{note[1:]}." for note in notes)
    return f"### {one['title']}\n\n{said}.{tail}\n\n{markdown(columns, rows)}"


def failed(found):
    """Requests without a good answer, by kind."""
    kinds = (("non_2xx", "not 2xx"), ("errors", "broken"), ("timeouts", "timed out"))
    said = [f"{found[key]:,} {words}" for key, words in kinds if found[key]]
    return ", ".join(said) or "0"


def sweep_part(data, pictures):
    """Curves over the number of connections."""
    for group, title in (("sweep-file", "13-byte file"), ("sweep-php", "13 bytes from PHP")):
        found = {one["connections"]: one for one in data["workloads"] if one["group"] == group and one["rounds"]}
        if not found:
            continue
        positions = [number for number in SWEEP if number in found]
        names = [name for name in servers.KINDS if any(name in names_of(one) for one in found.values())]
        yield f"## {title}, from {positions[0]} to {positions[-1]:,} connections\n"
        for metric, unit, logarithmic in (("rate", "Requests per second; more is better.", False),
                                          ("p99", "p99 latency in milliseconds; less is better.", True)):
            scale = 1 if metric == "rate" else 1e3
            series = {}
            for name in names:
                points = {number: (figures.summary(found[number]["rounds"], name) or {}).get(metric) for number in positions}
                series[name] = (servers.title_of(name), {n: value * scale for n, value in points.items() if value})
            file = f"{group}-{metric}.svg"
            pictures[file] = plot.lines(f"{title}: {METRIC_NAMES[metric]}", positions, series, unit, "connections", logarithmic)
            yield f"![{title}: {METRIC_NAMES[metric]} over connections](benchmarks/{file})\n"
        rows = []
        for name in names:
            cells = []
            for number in positions:
                one = figures.summary(found[number]["rounds"], name)
                cells.append("–" if not one else count(one["rate"]) + (f", {one['starved']} starved" if one["starved"] else "")
                             + (f", failed: {failed(one)}" if failed(one) != "0" else ""))
            rows.append([servers.title_of(name), *cells])
        yield markdown(["requests/s", *(str(number) for number in positions)], rows)


def memory_part(data, pictures, part="memory", title="Memory"):
    """Memory of whole stacks."""
    if not data.get(part):
        return
    rows = []
    for name, one in data[part].items():
        front = [mebibytes(one[when][1]) if one[when][1] else "–" for when in ("idle", "after")]
        each = one.get("connection")
        rows.append([servers.title_of(name), *(mebibytes(one[when][0]) for when in ("idle", "load", "after")), *front,
                     "–" if each is None else f"{each:,.0f}"])
    panels = [(words, [(name, servers.title_of(name), one[when][0] / 2**20, None, None) for name, one in data[part].items()])
              for when, words in (("idle", "After the start"), ("after", "After the load"))]
    pictures[f"{part}.svg"] = plot.bars("Memory of all processes of a server", panels, "MiB (PSS); less is better.")
    number = next((one["connections"] for one in data[part].values() if "connections" in one), 0)
    yield f"## {title}\n"
    yield f"![Memory of all processes](benchmarks/{part}.svg)\n"
    yield ("PSS in MiB of all processes after the start, under load of 64 connections and after it; of those alone that talk "
           f"to clients; and bytes for each of {number:,} kept connections that idle. Servers that bind connections to "
           "processes have 72 of them here, the others 8.\n")
    yield markdown(["server", "start", "load", "after", "front, start", "front, after", "bytes/connection"], rows)


def websockets_part(data):
    """Memory for idle WebSockets."""
    found = data.get("websockets")
    if not found:
        return
    rows = [[servers.title_of(name), "–" if each is None else f"{each:,.0f}"] for name, each in found.items()]
    yield "## Idle WebSockets\n"
    yield (f"Bytes by which the processes that talk to clients grow for each of {memory.SOCKETS:,} WebSockets that are passed "
           "on to another server and idle. The kernel's memory for the two sockets of each is not in it.\n")
    yield markdown(["server", "bytes/WebSocket"], rows)


def tls_memory_part(data):
    """Memory for idle connections with TLS."""
    found = data.get("tls-memory")
    if not found:
        return
    rows = [[servers.title_of(name), "–" if each is None else f"{each:,.0f}"] for name, each in found.items()]
    yield "## Idle connections with TLS\n"
    yield (f"Bytes by which the processes that talk to clients grow for each of {memory.SECURE:,} connections that have had an "
           "answer over TLS 1.3 and idle. Sessions that the server remembers are in it.\n")
    yield markdown(["server", "bytes/connection"], rows)


def pools_part(data, pictures):
    """Kinds of pools."""
    if not data["pools"]:
        return
    rows, panel = [], []
    for one in data["pools"]:
        result = one["result"]
        rows.append([one["pool"], count(figures.good_rate(result)), failed(result),
                     *(f"{mebibytes(one[when][0])} ({one[when][1]})" for when in ("before", "load", "after"))])
        series = "howdah" if one["pool"].startswith("Howdah") else "nginx-unix"
        panel.append((series, one["pool"], one["load"][0] / 2**20, None, None))
    idle = [(series, words, one["after"][0] / 2**20, None, None) for (series, words, *_), one in zip(panel, data["pools"])]
    pictures["pools.svg"] = plot.bars("Memory of kinds of pools", [("Under load", panel), ("Idle again", idle)],
                                      "MiB (PSS) of the whole stack; less is better.")
    yield "## Pools\n"
    yield "![Memory of kinds of pools](benchmarks/pools.svg)\n"
    yield ("A script that waits 10 ms, 50 connections. MiB (PSS) of the whole stack, and in brackets the PHP processes: after "
           "the start, under load, and idle again.\n")
    yield markdown(["pool", "requests/s", "failed", "start", "load", "idle again"], rows)


# Series of the plots: the looks of servers that are alike.
SITES_LOOKS = {"howdah": "howdah", "fpm": "nginx-unix", "fpm-masters": "nginx-kept"}


def sites_part(data, pictures):
    """Many sites that are rarely visited."""
    found = data.get("sites")
    if not found:
        return
    rows = []
    for one in found:
        cells = {when: f"{mebibytes(one[when][0])} ({one[when][1]:,})" for when in ("idle", "visited", "after")}
        if one["awake"] < one["sites"]:
            cells["visited"] += f", {one['awake']:,} awake"
        rows.append([f"{sites.number_of(one['sites'])}, {sites.title_of(one['stack'])}", f"{one['ready']:.2f}", *cells.values(),
                     milli(one["first"]), milli(one["second"]), f"{one['burst']:.2f}", missing(one["failed"])])
    pictures["sites.svg"] = sites_plot(found)
    yield "## Sites that are rarely visited\n"
    yield "![Memory of sites that are rarely visited](benchmarks/sites.svg)\n"
    yield ("Each site has a pool of at most 2 processes that start on demand. Seconds from the start until the first site has "
           "answered a file and PHP-FPM listens for all sites; MiB (PSS) of the whole stack, and in brackets its processes: before "
           "any request, after requests to each site, and when all sites sleep again; milliseconds of the first answer of a "
           f"sleeping site and of the next one, the median of up to {sites.SAMPLED} sites; seconds until all sites (at most "
           f"{sites.MOST_AT_ONCE}) have answered that are asked at the same time while they sleep; and failed requests. Where "
           "visits took longer than processes live, the table says how many sites were awake, and the plot has no mark.\n")
    yield markdown(["stack", "ready s", "idle", "visited", "after", "first ms", "second ms", "burst s", "failed"], rows)


def sites_plot(found):
    """Memory over the number of sites."""
    stages = (("idle", "No request yet"), ("visited", "After a request to each site"), ("after", "Idle again"))
    stacks = [stack for stack in sites.STACKS if any(one["stack"] == stack for one in found)]
    panels = [(words, {SITES_LOOKS[stack]: {one["sites"]: one[when][0] / 2**20 for one in found if one["stack"] == stack
                                            and (when != "visited" or one["awake"] >= one["sites"])} for stack in stacks})
              for when, words in stages]
    return plot.curves("Memory of sites that are rarely visited", sorted({one["sites"] for one in found}), panels,
                       {SITES_LOOKS[stack]: sites.title_of(stack) for stack in stacks},
                       "MiB (PSS) of the server and all PHP processes, logarithmic; less is better.", "sites")


def fleet_part(data):
    """Many WordPress sites in little memory."""
    found = data.get("fleet")
    if not found:
        return
    plan, asleep = found["plan"], found["asleep"]
    rows, notes = [], []
    for one in found["stacks"]:
        text = fleet.title_of(one["stack"])
        if "failure" in one:
            rows.append([text, *["–"] * 6, count(one["killed"]), "–", mebibytes(one["peak"]), "–"])
            notes.append(f"Did not start: {text} ({one['failure'].rstrip('.')}).")
            continue
        failures = ", ".join(f"{number:,} {kind}" for kind, number in sorted(one["failed"].items())) or "0"
        rows.append([text, count(one["requests"]), failures, *(milli(one[name]) for name in ("p50", "p90", "p99", "max")),
                     count(one["killed"]), mebibytes(one["used"]), mebibytes(one["peak"]), milli(one["cpu"])])
        notes.append(f"During {text}, other processes took {one['others']:.2f} processors.")
        if not one["alive"]:
            notes.append(f"Ended by itself: {text}.")
    idle, unloaded = sorted(asleep, key=int)
    yield f"## {plan['sites']:,} WordPress sites in {plan['memory']:,} MB\n"
    yield (f"{plan['rate']:g} visit{'s' if plan['rate'] != 1 else ''} per second for {plan['seconds']:,.0f} s, "
           f"{'a copy of WordPress for each site' if plan['copies'] else 'one WordPress for all sites'}, at most {plan['workers']} "
           f"processes for a site; {asleep[idle]:,} came "
           f"to a site that had none for {idle} s, {asleep[unloaded]:,} to one that had none for {unloaded} s. Milliseconds from the moment of a visit to its page; processes that "
           "the kernel killed for lack of memory; MiB of the control group, the mean without the page cache and the peak with it; and "
           "processor milliseconds of the server and its PHP processes for each visit. "
           + " ".join(notes) + "\n")
    yield markdown(["server", "visits", "failed", "p50 ms", "p90 ms", "p99 ms", "max ms", "killed", "mean MiB", "peak MiB", "CPU ms/visit"], rows)


def missing(failed):
    """Requests to sites without a good answer, by when they were made."""
    kinds = (("visits", "one at a time"), ("burst", "in the burst"))
    return ", ".join(f"{failed[key]:,} {words}" for key, words in kinds if failed[key]) or "0"
