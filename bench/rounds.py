"""Interleaved rounds: each round asks every server once, in an order that turns and changes direction.

Beside the output of the client, a measurement has the processor time of the server's processes, that of
all others, and the connections without an answer. Rounds that others disturbed are measured again.
"""

import http.client
import re
import resource
import subprocess
import time

import clients
import figures
import machine
from processes import Unusable, fetch, machine_busy_time, processor_time

WARM_UP = 1.0
# Seconds that servers get to finish abandoned requests, how often they are looked at, and the share of
# one processor below which they count as idle.
SETTLE, SETTLE_STEP, SETTLED = 60.0, 0.2, 0.2


def children_time():
    """Processor time of clients that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sockets(port):
    """Bytes received so far by each connection to a port."""
    done = subprocess.run(["ss", "-tinOH", "state", "established", "dst", f"127.0.0.1:{port}"],
                          capture_output=True, text=True, check=False)
    return clients.received(done.stdout)


def watch(process, port, seconds):
    """Waits for a client; returns the number of connections without an answer in most of its run."""
    begun = time.monotonic()

    def until(share):
        left = begun + share * seconds - time.monotonic()
        if left > 0:
            try:
                process.wait(left)
            except subprocess.TimeoutExpired:
                return True
        return process.poll() is None
    if not until(0.2):
        return None
    before = sockets(port)
    if not until(0.95):
        return None
    return clients.starved(before, sockets(port))


def settle(servers, shared):
    """Waits until the requests of clients that have left are finished.

    Few servers notice that a client is gone before they answer it, so a queue of slow pages outlives its client
    and would be worked on at the expense of the server that is measured next.
    """
    def used():
        return sum(server.cpu() for server in servers) + processor_time(shared)
    end = time.monotonic() + SETTLE
    before = used()
    while time.monotonic() < end:
        time.sleep(SETTLE_STEP)
        after = used()
        if after - before <= SETTLED * SETTLE_STEP:
            return
        before = after


def once(*arguments):
    """One run of a client, and another one if it does not end: siege now and then loses a thread."""
    try:
        return attempt_once(*arguments)
    except subprocess.TimeoutExpired:
        return attempt_once(*arguments)


def attempt_once(workload, port, server, seconds, directory, shared=()):
    """One run of a workload's client against a port; with figures of the server if it is ours.

    `shared` are processes that work for every server, such as a database: theirs and no stranger's time.
    """
    command, read = clients.CLIENTS[workload.client]
    line = command(f"{workload.scheme}://127.0.0.1:{port}{workload.path}", workload, seconds, machine.processors(), directory)
    cpu = server.cpu() if server else 0.0
    busy, ours = machine_busy_time(), time.process_time() + children_time() + processor_time(shared)
    begun = time.monotonic()
    with open(directory / "client.txt", "w+") as output:
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            # Only wrk runs for a time that is known beforehand and keeps its connections.
            counted = workload.client == "wrk" and workload.keep_alive
            hungry = watch(process, port, max(round(seconds), 1)) if counted else None
            process.wait(timeout=seconds * 5 + 30)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        took = time.monotonic() - begun
        output.seek(0)
        text = output.read()
    cpu = server.cpu() - cpu if server else None
    busy = machine_busy_time() - busy
    ours = time.process_time() + children_time() + processor_time(shared) - ours
    result = read(text, directory)
    result["cpu"] = cpu
    result["starved"] = hungry
    # Ticks are coarse, so a quiet machine may come out a little below zero.
    result["cpu_others"] = max(busy - ours - (cpu or 0.0), 0.0) * (result["seconds"] / took if took else 1.0)
    return result


def workload_rounds(workload, options):
    """The number of rounds to believe."""
    return options.rounds if options.is_exact else max(options.rounds, workload.rounds)


def run(workload, running, options, directory, progress, shared=()):
    """The rounds of one workload against the servers that run: the accepted results, and the doubts."""
    names = [name for name in workload.servers if name in running]
    seconds = options.seconds * workload.stretch
    wanted, processors = workload_rounds(workload, options), machine.processors()
    attempts = options.attempts + wanted - options.rounds
    failures = {}
    for name in names:
        settle(running.values(), shared)
        try:
            once(workload, running[name].port, running[name], min(WARM_UP, options.seconds), directory, shared)
        except (clients.Unreadable, subprocess.TimeoutExpired) as problem:
            failures[name] = str(problem)
    names = [name for name in names if name not in failures]
    rounds, calm, attempt = [], 0, 0
    while names and calm < wanted and attempt < attempts:
        turn = attempt % len(names)
        order = names[turn:] + names[:turn]
        if attempt % 2:
            order.reverse()  # or each would always come after the same one
        one = {}
        for name in order:
            progress.step(f"{workload.title}: {name}, round {len(rounds) + 1}", 0)
            settle(running.values(), shared)
            try:
                one[name] = once(workload, running[name].port, running[name], seconds, directory, shared)
            except (clients.Unreadable, subprocess.TimeoutExpired) as problem:
                failures[name] = str(problem)
        names = [name for name in names if name not in failures]
        rounds.append(one)
        quiet = not any(figures.disturbed(result, processors) for result in one.values())
        calm += quiet
        attempt += 1
        if quiet:
            progress.step(workload.title, len(one))
        elif attempt < attempts:
            progress.note(f"{workload.title}: round {attempt} is discarded; other processes took "
                          + ", ".join(f"{result['cpu_others'] / result['seconds'] / processors:.0%}" for result in one.values()))
    used = {name: running[name].memory()[0] for name in names} if workload.setup.worker else {}
    believed, discarded, doubtful = figures.pick(rounds, wanted, processors)
    progress.step(workload.title, (wanted - calm) * len(names))
    for name, problem in failures.items():
        progress.note(f"{workload.title}: {name} cannot be measured: {problem.strip().splitlines()[-1]}")
    return {"id": workload.id, "group": workload.group, "title": workload.title, "client": workload.client,
            "connections": workload.connections, "workers": workload.setup.workers, "ideal": workload.ideal, "beside": workload.beside, "stretch": workload.stretch,
            "rounds": believed, "discarded": discarded, "doubtful": doubtful, "failures": failures, "memory": used}


def plain(body, port):
    """A body without its intended difference: the port in links."""
    return re.sub(rb"127\.0\.0\.1(:|%%3A|\\/)%d\b" % port, b"host", body)


def check_answers(workloads, running):
    """Every server must answer each path with 200 and the same bytes; says where one does not."""
    for workload in workloads:
        for path in workload.paths or (workload.path,):
            seen = {}
            for name in workload.servers:
                if name not in running:
                    continue
                server = running[name]
                try:
                    status, body = fetch(server.port, path, tls=workload.setup.tls)
                except (OSError, http.client.HTTPException) as problem:
                    raise Unusable(f"{name} does not answer {path}: {problem}") from problem
                if status != 200 or not body:
                    raise Unusable(f"{name} answers {path} with status {status} and {len(body)} bytes instead of the page")
                if workload.same:
                    seen[name] = plain(body, server.port)
            if len(set(seen.values())) > 1:
                first = next(iter(seen))
                odd = [name for name, body in seen.items() if body != seen[first]]
                raise Unusable(f"{path} is not the same everywhere: {', '.join(odd)} differ from {first} "
                               f"({ {name: len(body) for name, body in seen.items()} } bytes)")
