"""Medians, ratios and spreads: from single measurements to the figures of a report. No I/O.

Ratios are taken within a round, where both servers ran within seconds of each other, and the
median of those is reported. A machine that was slower for a while then changes no ratio.
"""

import math
import statistics


def median(values):
    """The median of the values, or none."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def percentile(ordered, share):
    """The smallest of ordered values that at least so many per cent do not exceed; none without values."""
    return ordered[max(math.ceil(len(ordered) * share / 100) - 1, 0)] if ordered else None


def cpu_per_request(result):
    """Processor seconds of all processes of a server for each request that was answered well."""
    good = result["requests"] - result["non_2xx"]
    return result["cpu"] / good if good > 0 and result.get("cpu") is not None else None


def good_rate(result):
    """Requests per second with the right answer."""
    return (result["requests"] - result["non_2xx"]) / result["seconds"] if result["seconds"] else 0.0


METRICS = {
    "rate": good_rate,
    "cpu": cpu_per_request,
    "p50": lambda result: result.get("p50"),
    "p99": lambda result: result.get("p99"),
    "beside": lambda result: result.get("beside"),
    "seconds": lambda result: result["seconds"],
}


def summary(rounds, server):
    """The cells of a table for one server in one workload. `rounds` are {server: result}."""
    results = [one[server] for one in rounds if server in one]
    if not results:
        return None
    found = {name: median([metric(result) for result in results]) for name, metric in METRICS.items()}
    for name in ("requests", "non_2xx", "errors", "timeouts"):
        found[name] = sum(result[name] for result in results)
    found["starved"] = max((result["starved"] for result in results if result.get("starved") is not None), default=None)
    rates = [good_rate(result) for result in results]
    found["lowest"], found["highest"] = min(rates), max(rates)
    return found


def ratio(rounds, server, other, metric="rate"):
    """Median over the rounds of how many times `other`'s figure `server`'s is; none without both."""
    found = ratios(rounds, server, other, metric)
    return statistics.median(found) if found else None


def ratios(rounds, server, other, metric="rate"):
    """The ratio in each round that has both."""
    found = []
    for one in rounds:
        if server in one and other in one:
            left, right = METRICS[metric](one[server]), METRICS[metric](one[other])
            if left is not None and right:
                found.append(left / right)
    return found


def spread(rounds, server, twin, metric="rate"):
    """Smallest and largest ratio of a server to itself; none if it was not measured twice."""
    found = ratios(rounds, twin, server, metric)
    return (min(found), max(found)) if found else None


def disturbed(result, processors, limit=0.10):
    """Whether others took so much of the machine that a result says little."""
    return result["cpu_others"] > limit * processors * result["seconds"]


def pick(rounds, wanted, processors):
    """The rounds to believe, and how many of the measured ones were discarded for disturbance.

    When too few are calm, the least disturbed fill up; the third value says how many those are.
    """
    def worst(one):
        return max((result["cpu_others"] / result["seconds"] for result in one.values() if result["seconds"]), default=0)
    calm = [one for one in rounds if not any(disturbed(result, processors) for result in one.values())]
    loud = sorted((one for one in rounds if one not in calm), key=worst)
    fill = loud[:max(wanted - len(calm), 0)]
    return calm + fill, len(loud) - len(fill), len(fill)
