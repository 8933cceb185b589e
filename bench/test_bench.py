#!/usr/bin/env python3
"""Tests without servers: reading the output of clients, figures, tables, plots."""

import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from xml.etree import ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import clients  # noqa: E402 - they sit beside this file
import control_group  # noqa: E402
import figures  # noqa: E402
import fleet  # noqa: E402
import plot  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
import servers  # noqa: E402
import sites  # noqa: E402
import tables  # noqa: E402
import workloads  # noqa: E402

WRK = """Running 1s test @ http://127.0.0.1:18999/none
  2 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     6.75ms   11.77ms  72.30ms   87.62%
    Req/Sec     0.90k   497.19     1.59k    65.00%
  Latency Distribution
     50%  650.00us
     75%    6.41ms
     90%   22.57ms
     99%    1.25s 
  1810 requests in 1.02s, 0.90MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 7
Requests/sec:   1782.40
Transfer/sec:      0.88MB
"""

AB = """Concurrency Level:      4
Time taken for tests:   0.038 seconds
Complete requests:      50
Failed requests:        9
   (Connect: 1, Receive: 2, Length: 4, Exceptions: 2)
Non-2xx responses:      5
Total transferred:      9950 bytes
Requests per second:    1316.52 [#/sec] (mean)
"""

H2LOAD = """starting benchmark...
Application protocol: http/1.1

finished in 33.14ms, 603.46 req/s, 87.69KB/s
requests: 20 total, 20 started, 18 done, 15 succeeded, 5 failed, 2 errored, 0 timeout
status codes: 15 2xx, 0 3xx, 0 4xx, 1 5xx
traffic: 2.91KB (2976) total, 2.87KB (2940) headers (space savings 0.00%), 260B (260) data
"""

SIEGE = """** SIEGE 4.0.7
{	"transactions":			         493,
	"availability":			      100.00,
	"elapsed_time":			        0.49,
	"transaction_rate":		     1006.12,
	"successful_transactions":	         110,
	"failed_transactions":		           3
}
"""

SS = """0      0          127.0.0.1:40001   127.0.0.1:8080 cubic wscale:7,7 bytes_sent:80 bytes_acked:81 bytes_received:0
0      0          127.0.0.1:40002   127.0.0.1:8080 cubic bytes_received:4096 segs_out:10
0      0          127.0.0.1:40003   127.0.0.1:8080 cubic wscale:7,7
"""


def result(requests=1000, seconds=1.0, cpu=0.1, others=0.0, **more):
    """One measurement."""
    return {**clients.outcome(requests, seconds, 0.001, 0.002), "cpu": cpu, "starved": 0, "cpu_others": others, **more}


class Reading(unittest.TestCase):
    def test_wrk_says_how_many_how_fast_and_what_went_wrong(self):
        found = clients.read_wrk(WRK)
        self.assertEqual(found, {"requests": 1810, "seconds": 1.02, "p50": 0.00065, "p99": 1.25,
                                 "non_2xx": 7, "errors": 6, "timeouts": 4})

    def test_wrk_without_trouble_has_none(self):
        text = "\n".join(line for line in WRK.splitlines() if "errors" not in line and "Non-2xx" not in line)
        found = clients.read_wrk(text)
        self.assertEqual((found["non_2xx"], found["errors"], found["timeouts"]), (0, 0, 0))

    def test_a_client_that_cannot_connect_is_no_result(self):
        for read in (read for _, read in clients.CLIENTS.values()):
            with self.assertRaises(clients.Unreadable):
                read("unable to connect to 127.0.0.1:18998 Connection refused\n")

    def test_a_storm_of_misses_counts_its_failures_and_its_rate(self):
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "others.txt").write_text(WRK.replace("1810 requests in 1.02s", "3000 requests in 3.00s"))
            found = clients.read_storm(WRK, Path(name))
        self.assertEqual((found["requests"], found["p99"], found["beside"]), (1810, 1.25, 1000.0))
        self.assertEqual((found["non_2xx"], found["errors"], found["timeouts"]), (14, 12, 8))

    def test_ab_does_not_call_another_length_an_error(self):
        found = clients.read_ab(AB)
        self.assertEqual((found["requests"], found["seconds"], found["errors"], found["non_2xx"]), (50, 0.038, 5, 5))
        self.assertIsNone(found["p50"])

    def test_ab_has_its_percentiles_in_a_file(self):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "ab.csv"
            path.write_text("Percentage served,Time in ms\n0,0.100\n50,0.512\n99,2.000\n")
            found = clients.read_ab(AB, Path(name))
            self.assertEqual((found["p50"], found["p99"]), (0.000512, 0.002))
            self.assertFalse(path.exists(), "the next measurement must not find it")

    def test_what_several_ab_say_is_summed_up(self):
        found = clients.read_handshakes(AB + AB.replace("0.038", "0.040"))
        self.assertEqual((found["requests"], found["non_2xx"], found["errors"], found["seconds"]), (100, 10, 10, 0.04))

    def test_h2load_tells_bad_answers_from_missing_ones(self):
        found = clients.read_h2load(H2LOAD)
        self.assertEqual((found["requests"], found["non_2xx"], found["errors"]), (16, 1, 4))
        self.assertAlmostEqual(found["seconds"], 0.03314)

    def test_siege_ends_with_json(self):
        found = clients.read_siege(SIEGE)
        self.assertEqual((found["requests"], found["seconds"], found["errors"]), (493, 0.49, 3))

    def test_times_have_units(self):
        self.assertEqual([clients.time_of(text) for text in ("2.00m", "1.10ms", "3.00s", "7us")], [120, 0.0011, 3, 7e-6])
        with self.assertRaises(clients.Unreadable):
            clients.time_of("nan")

    def test_a_connection_that_receives_nothing_between_two_looks_is_starved(self):
        before = clients.received(SS)
        self.assertEqual(before, {"127.0.0.1:40001": 0, "127.0.0.1:40002": 4096, "127.0.0.1:40003": 0})
        self.assertEqual(clients.starved(before, clients.received(SS.replace("received:4096", "received:9000"))), 2)
        self.assertEqual(clients.starved({}, before), 0, "one that is new has had no time yet")

    def test_others_are_everything_but_idle_and_interrupts(self):
        text = "cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
        self.assertAlmostEqual(processes.busy_time(text), 158 / processes.TICKS)


class Figures(unittest.TestCase):
    def test_a_percentile_is_a_value_that_was_measured(self):
        values = list(range(1, 201))
        self.assertEqual([figures.percentile(values, share) for share in (0, 50, 90, 99, 100)], [1, 100, 180, 198, 200])
        self.assertEqual(figures.percentile([7], 99), 7)
        self.assertIsNone(figures.percentile([], 50))

    def test_a_ratio_is_taken_within_a_round(self):
        slow_and_fast = [{"a": result(100), "b": result(50)}, {"a": result(1000), "b": result(500)}, {"a": result(600), "b": result(300)}]
        self.assertEqual(figures.ratio(slow_and_fast, "a", "b"), 2.0)
        self.assertIsNone(figures.ratio(slow_and_fast, "a", "c"))

    def test_bad_answers_do_not_count_as_work(self):
        failing = result(1000, non_2xx=900)
        self.assertEqual(figures.good_rate(failing), 100)
        self.assertAlmostEqual(figures.cpu_per_request(failing), 0.001)
        self.assertIsNone(figures.cpu_per_request(result(10, non_2xx=10)))

    def test_the_spread_is_that_of_a_server_to_its_twin(self):
        found = figures.spread([{"a": result(100), "t": result(90)}, {"a": result(100), "t": result(120)}], "a", "t")
        self.assertEqual(found, (0.9, 1.2))
        self.assertIsNone(figures.spread([{"a": result()}], "a", "t"))

    def test_disturbed_rounds_are_discarded_while_there_are_calm_ones(self):
        calm, loud, louder = {"a": result()}, {"a": result(others=0.5)}, {"a": result(others=0.9)}
        self.assertEqual(figures.pick([loud, calm, calm], 2, 2), ([calm, calm], 1, 0))
        self.assertEqual(figures.pick([louder, calm, loud], 2, 2), ([calm, loud], 1, 1))

    def test_a_tenth_of_all_processors_is_the_bound(self):
        self.assertFalse(figures.disturbed(result(others=0.19), 2))
        self.assertTrue(figures.disturbed(result(others=0.21), 2))

    def test_a_summary_has_medians_sums_and_the_most_starved(self):
        one = figures.summary([{"a": result(n, starved=s)} for n, s in ((100, 0), (300, 7), (200, 0))], "a")
        self.assertEqual((one["rate"], one["requests"], one["starved"], one["lowest"], one["highest"]), (200, 600, 7, 100, 300))
        self.assertIsNone(figures.summary([], "a"))


class Choosing(unittest.TestCase):
    def test_names_of_workloads_are_unique(self):
        names = [one.id for one in workloads.all_workloads()]
        self.assertEqual(len(names), len(set(names)))

    def test_aims_are_about_workloads_that_are_measured(self):
        known = {one.id: one for one in workloads.all_workloads()}
        for aim in workloads.AIMS:
            self.assertTrue(set(aim.peers) & set(known[aim.workload].servers), aim)

    def test_patterns_choose_workloads_groups_and_others(self):
        found, others = workloads.chosen(["php-13*", "crowd", "memory"], False, workloads.all_workloads())
        self.assertEqual([one.id for one in found], ["php-13", "php-13-new", "php-13-c1", "crowd-wait", "crowd-hello", "crowd-page"])
        self.assertEqual(others, ["memory"])

    def test_the_fleet_is_measured_only_if_it_is_asked_for_by_name(self):
        self.assertNotIn("fleet", workloads.chosen([], False, [])[1])
        self.assertEqual(workloads.chosen(["fleet"], False, [])[1], ["fleet"])

    def test_addresses_of_the_server_itself_do_not_make_pages_differ(self):
        self.assertEqual(rounds.plain(b"http://127.0.0.1:8080/a http:\\/\\/127.0.0.1:8080 127.0.0.1%3A8080", 8080),
                         b"http://host/a http:\\/\\/host host")


class Stub:
    """A server of many sites, some of which do not answer; counts the requests for each."""

    def __init__(self, count, bad=()):
        self.sites, self.bad, self.asked = sites.names(count), set(bad), Counter()

    def answered(self, _, site):
        self.asked[site] += 1
        return site not in self.bad


class Sites(unittest.TestCase):
    def test_one_master_for_each_site_is_measured_up_to_a_hundred(self):
        found = sites.planned(SimpleNamespace(sites=None, quick=False))
        self.assertEqual(found[:3], [(1, "howdah"), (1, "fpm"), (1, "fpm-masters")])
        self.assertEqual(found[6:], [(100, "howdah"), (100, "fpm"), (100, "fpm-masters"), (500, "howdah"), (500, "fpm")])

    def test_a_quick_run_has_few_sites_unless_it_is_told_otherwise(self):
        self.assertEqual({count for count, _ in sites.planned(SimpleNamespace(sites=None, quick=True))}, {1, 20})
        self.assertEqual({count for count, _ in sites.planned(SimpleNamespace(sites=[7], quick=True))}, {7})

    def test_every_site_has_a_directory_and_an_answer_of_its_own(self):
        with tempfile.TemporaryDirectory() as name:
            root = sites.make(Path(name), sites.names(2))
            self.assertEqual(sorted(path.name for path in root.iterdir()), ["site-0001", "site-0002"])
            self.assertIn("site-0002", (root / "site-0002/hello.php").read_text())

    def test_a_sample_is_spread_over_all_sites(self):
        self.assertEqual(sites.sample(sites.names(3)), ["site-0001", "site-0002", "site-0003"])
        found = sites.sample(sites.names(500))
        self.assertEqual((len(found), found[1], found[-1]), (20, "site-0026", "site-0476"))

    def test_sites_are_asked_again_so_that_all_live_in_the_end(self):
        stub = Stub(30)
        with mock.patch.object(sites, "answered", stub.answered):
            self.assertEqual(sites.visit(stub), 0)
        self.assertGreaterEqual(min(stub.asked[site] for site in stub.sites), 2)

    def test_asking_again_is_given_up_where_it_takes_longer_than_processes_live(self):
        stub, clock = Stub(40), iter(range(0, 10**6, sites.IDLE_SECONDS))
        with mock.patch.object(sites, "answered", stub.answered), mock.patch.object(sites.time, "monotonic", lambda: next(clock)):
            sites.visit(stub)
        self.assertEqual((len(stub.asked), sum(stub.asked.values())), (40, 41))

    def test_a_burst_counts_those_without_an_answer(self):
        stub = Stub(20, ["site-0003", "site-0020"])
        with mock.patch.object(sites, "answered", stub.answered):
            seconds, failed = sites.burst(stub, stub.sites)
        self.assertEqual((failed, sum(stub.asked.values())), (2, 20))
        self.assertGreaterEqual(seconds, 0)

    def test_php_fpm_has_a_section_for_each_pool(self):
        found = servers.fpm_pool("/run/a.sock", 0, None, sites.FPM_ONDEMAND, "site-0001")
        self.assertTrue(found.startswith("[site-0001]\nlisten = /run/a.sock\n"))
        self.assertIn("\npm = ondemand\npm.max_children = 2\npm.process_idle_timeout = 5s\n", found)


MEMORY_STAT = """cache 900
inactive_file 100
active_file 50
total_inactive_file 300
total_active_file 200
"""


class ControlGroups(unittest.TestCase):
    def test_version_1_counts_files_of_groups_below_as_well(self):
        self.assertEqual(control_group.without_files(1000, MEMORY_STAT, True), 500)
        self.assertEqual(control_group.without_files(1000, MEMORY_STAT, False), 850)

    def test_used_memory_is_never_negative(self):
        self.assertEqual(control_group.without_files(100, MEMORY_STAT, True), 0)

    def test_kills_are_told_from_attempts_to_kill(self):
        self.assertEqual(control_group.number("oom_kill", "oom 7\noom_kill 3\noom_group_kill 9\n"), 3)
        self.assertEqual(control_group.number("oom_kill", "oom_kill_disable 0\nunder_oom 0\n"), 0)

    def test_memory_is_enabled_for_groups_of_version_2(self):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "cgroup.subtree_control"
            path.write_text("cpu io\n")
            control_group.enable(Path(name))
            self.assertEqual(path.read_text(), "+memory")
            with self.assertRaises(processes.Unusable):
                control_group.enable(Path(name) / "none")


def visits(*times):
    """Visits to one site."""
    return [fleet.Visit(at, "site-0001", "/") for at in times]


class FleetOfSites(unittest.TestCase):
    def options(self, **given):
        return SimpleNamespace(**{"sites": None, "quick": False, "fleet_seconds": None, "fleet_rate": None, "fleet_memory": None,
                                  "fleet_workers": None, "fleet_copies": False, **given})

    def test_a_quick_run_is_smaller_unless_it_is_told_otherwise(self):
        self.assertEqual(fleet.planned(self.options()), fleet.Plan(200, 600, fleet.RATE, 512, 2, False))
        self.assertEqual(fleet.planned(self.options(quick=True)), fleet.Plan(20, 30, fleet.RATE, 512, 2, False))
        self.assertEqual(fleet.planned(self.options(quick=True, sites=[1, 7], fleet_seconds=5, fleet_rate=3, fleet_memory=256,
                                                    fleet_workers=4, fleet_copies=True)), fleet.Plan(7, 5, 3, 256, 4, True))

    def test_visits_are_the_same_for_each_server_and_come_at_the_rate(self):
        names = sites.names(200)
        found = fleet.schedule(names, 2, 1000)
        self.assertEqual(found, fleet.schedule(names, 2, 1000))
        self.assertTrue(1800 < len(found) < 2200, len(found))
        self.assertEqual(found, sorted(found, key=lambda visit: visit.at))
        self.assertLess(found[-1].at, 1000)

    def test_the_second_site_has_half_of_the_visits_of_the_first(self):
        found = Counter(visit.site for visit in fleet.schedule(sites.names(200), 10, 3000))
        self.assertAlmostEqual(found["site-0002"] / found["site-0001"], 0.5, delta=0.05)
        self.assertAlmostEqual(found["site-0010"] / found["site-0001"], 0.1, delta=0.02)

    def test_a_visit_finds_a_sleeping_site_after_a_pause(self):
        self.assertEqual(fleet.to_sleeping(visits(1, 5, 20, 31), 10), 3)
        self.assertEqual(fleet.to_sleeping(visits(1, 5, 20, 31), 40), 1)

    def test_only_the_page_of_the_site_itself_is_right(self):
        page = "<html><head><title>{}</title></head><body>The Caravan of site-0001</body></html>"
        for answer, expected in (((200, page.format("Day 1 &#8211; The Caravan of site-0001")), None), ((500, "x"), "status 500"),
                                 ((200, page.format("The Caravan of site-0002")), "wrong page"), ((200, ""), "wrong page"),
                                 (ConnectionResetError(), "no answer"), (TimeoutError(), "timed out")):
            effect = answer if isinstance(answer, Exception) else [(answer[0], answer[1].encode())]
            with mock.patch.object(fleet, "fetch", side_effect=effect):
                self.assertEqual(fleet.problem(80, visits(0)[0]), expected)

    def test_latency_counts_from_the_moment_at_which_a_visit_should_have_begun(self):
        looks = []
        with mock.patch.object(fleet, "problem", lambda port, visit: "status 502" if visit.at else None):
            found = fleet.drive(80, visits(0, 0.02), lambda: looks.append(1))
        self.assertEqual(([wrong for _, wrong in found], len(looks)), ([None, "status 502"], 2))
        self.assertTrue(all(0 <= seconds < 1 for seconds, _ in found), found)

    def test_failures_have_no_latency(self):
        found = fleet.summary([(0.1, None), (0.3, None), (9.0, "status 502"), (60.0, "timed out"), (0.2, "status 502")])
        self.assertEqual(found, {"requests": 5, "failed": {"status 502": 2, "timed out": 1}, "p50": 0.1, "p90": 0.3, "p99": 0.3, "max": 0.3})
        self.assertIsNone(fleet.summary([(1.0, "no answer")])["p50"])

    def test_sites_with_one_application_differ_by_host(self):
        server = object.__new__(fleet.HowdahShared)
        server.place, server.workers, server.copies = SimpleNamespace(root=Path("/srv/wordpress"), ini="/etc/php.ini"), 2, None
        server.sites, server.port, served = ["site-0001", "site-0002"], 80, []
        server.serve = served.append
        server.start()
        self.assertEqual(list(served[0]["applications"]), ["shared"])
        self.assertEqual(served[0]["applications"]["shared"]["processes"]["max"], fleet.SHARED_WORKERS)
        self.assertEqual(served[0]["variables"]["site"]["values"][sites.host("site-0002")], "site-0002")
        self.assertEqual(served[0]["routes"]["site-0002"][0]["action"]["environment"], {"HOWDAH_SITE": "site-0002"})
        self.assertEqual(served[0]["routes"]["site-0002/content"][0]["action"]["scripts"], "applications/shared/direct")

    def test_every_site_has_an_application_with_its_own_processes(self):
        server = object.__new__(fleet.Howdah)
        server.place, server.workers, server.copies = SimpleNamespace(root=Path("/srv/wordpress"), ini="/etc/php.ini"), 2, None
        self.assertEqual(server.action("site-0007")["fallback"], {"pass": "applications/site-0007/front"})
        self.assertEqual(server.application("site-0007")["targets"]["direct"], {"root": "/srv/wordpress"})
        self.assertEqual(server.application("site-0007")["processes"], {"max": 2, "spare": 0, "idle_timeout": 10})

    def test_sites_with_copies_have_different_roots_and_the_same_number_of_processes(self):
        for kind in (fleet.Howdah, fleet.Fpm, fleet.FpmMasters):
            server = object.__new__(kind)
            server.workers, server.copies = 4, Path("/srv/copies")
            self.assertEqual(server.root("site-0007"), Path("/srv/copies/site-0007"))
        self.assertIn("pm.max_children = 4\n", server.pool)

    def test_php_fpm_sends_requests_for_no_file_to_wordpress(self):
        text = sites.NGINX_SITE.format(port=80, host="a.example", root="/srv", socket="/run/a.sock", fallback=fleet.Fpm.fallback)
        self.assertIn("location / { try_files $uri $uri/ /index.php?$args; }", text)

    def test_names_of_databases_need_no_quotes(self):
        self.assertTrue(fleet.database("site-0001").isidentifier())


class Writing(unittest.TestCase):
    def test_a_table_survives_bars_in_its_cells(self):
        text = tables.markdown(["a", "b"], [["x|y", 1]])
        self.assertEqual(text, "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n")
        self.assertIn("<td>x|y</td>", tables.html(text, {}))

    def test_figures_are_written_for_readers(self):
        self.assertEqual([tables.count(None), tables.count(65635.4), tables.micro(4.52e-6), tables.milli(0.0123), tables.times(1.3149)],
                         ["–", "65,635", "4.5", "12.3", "1.31 ×"])

    def test_html_escapes_what_was_measured(self):
        self.assertIn("&lt;script&gt;", tables.html("a <script> b\n", {}))

    def test_numbers_on_axes_are_round(self):
        self.assertEqual([plot.ceiling(value) for value in (0, 0.9, 13, 96, 2100)], [1.0, 1.0, 15, 100, 2500])
        self.assertEqual([plot.short(value) for value in (0, 1.234, 950, 65635, 1234567)], ["0", "1.23", "950", "66 k", "1.23 M"])

    def test_every_server_has_a_colour_and_a_shape_of_its_own(self):
        looks = list(plot.LOOKS.values())
        self.assertEqual(len({colour for colour, _ in looks}), len(looks))
        self.assertEqual(len({shape for _, shape in looks}), len(looks))
        self.assertEqual(set(plot.LOOKS), set(report.servers.KINDS))

    def test_a_whole_report_is_made_of_valid_pictures_and_tables(self):
        names = ("howdah", "howdah-again", "nginx-unix", "unit")
        measured = [{name: result(1000 + 100 * at) for at, name in enumerate(names)} for _ in range(3)]
        found = [{"id": one.id, "group": one.group, "title": one.title, "client": one.client, "connections": one.connections,
                  "workers": one.setup.workers, "ideal": one.ideal, "stretch": one.stretch, "rounds": measured, "discarded": 1, "doubtful": 1,
                  "failures": {"apache": "no"}} for one in workloads.all_workloads()]
        one = {"idle": (2**20, 2**19), "load": (2**21, 2**20), "after": (2**21, 0), "connection": 900.0, "connections": 5000}
        site = {"ready": 0.1234, "idle": (2**20, 2), "visited": (2**24, 1002), "awake": 9, "after": (2**21, 2), "first": 0.0123, "second": None,
                "burst": 1.5, "failed": {"visits": 0, "burst": 3}}
        pool = {"pool": "Howdah, 8", "result": result(), "before": (2**20, 8), "load": (2**20, 8), "after": (2**20, 8)}
        crowd = {"plan": {"sites": 200, "seconds": 600, "rate": 1.0, "memory": 512, "workers": 2, "copies": False}, "asleep": {"10": 300, "40": 200}, "stacks": [
            {"stack": "howdah", **fleet.summary([(0.5, None), (0.1, "status 502")]), "killed": 2, "used": 2**28, "peak": 2**29, "cpu": 0.05,
             "others": 0.1, "alive": True}, {"stack": "fpm", "failure": "php-fpm: no sockets.", "killed": 1, "peak": 2**29}]}
        text, pictures = report.make({
            "machine": {"processors": "2"}, "versions": {"howdah": "howdah 1"}, "started": "today", "options": {"rounds": 3, "seconds": 1},
            "workloads": found, "memory": {"howdah": one, "apache": {**one, "connection": None}}, "pools": [pool],
            "sites": [{**site, "stack": "howdah", "sites": 1}, {**site, "stack": "fpm", "sites": 500}], "fleet": crowd, "tls-memory": {"howdah": 11065.4, "nginx-unix": None}})
        for name, picture in pictures.items():
            ElementTree.fromstring(picture)
            self.assertIn(f"](benchmarks/{name})", text)
        self.assertIn("| 13-byte file, keep-alive | 1.10–1.10 | 0.83 × | 0.77 × |", text)
        self.assertIn("Not measured: Apache + mod_php.", text)
        self.assertIn("| Howdah | 11,065 |\n| nginx + FPM, unix socket | – |", text)
        self.assertIn("| 1 site, Howdah | 0.12 | 1.0 (2) | 16.0 (1,002) | 2.0 (2) | 12.3 | – | 1.50 | 3 in the burst |", text)
        self.assertIn("| 500 sites, FPM, pool per site | 0.12 | 1.0 (2) | 16.0 (1,002), 9 awake |", text)
        self.assertEqual([pictures["sites.svg"].count(words) for words in (">500<", ">Howdah<", ">16<", "<polyline")], [3, 1, 1, 5])
        self.assertIn("| Howdah | 2 | 1 status 502 | 500 | 500 | 500 | 500 | 2 | 256.0 | 512.0 | 50.0 |", text)
        self.assertIn("| nginx + FPM, pool per site | – | – | – | – | – | – | 1 | – | 512.0 | – |", text)
        self.assertIn("Did not start: nginx + FPM, pool per site (php-fpm: no sockets).", text)
        page = tables.page("Report", f"# Report\n\n{text}", pictures)
        self.assertEqual(page.count("<svg"), len(pictures))

    def test_nothing_measured_is_no_picture_that_cannot_be_drawn(self):
        ElementTree.fromstring(plot.lines("nothing", [1, 2], {"howdah": ("Howdah", {})}, "unit", "x", True))
        ElementTree.fromstring(plot.curves("nothing", [1, 2], [("panel", {"howdah": {}})], {"howdah": "Howdah"}, "unit", "x"))

    def test_a_logarithmic_axis_has_powers_of_ten_around_all_values(self):
        self.assertEqual(plot.steps(3, 2800), [1, 10, 100, 1000, 10000])
        self.assertEqual(plot.steps(10, 10), [10, 100])

    def test_values_beside_curves_do_not_cover_each_other(self):
        found = plot.apart([(9, 50, "b"), (9, 48, "a"), (9, 200, "c")])
        self.assertEqual([(y, name) for _, y, name in found], [(52, "a"), (65, "b"), (204, "c")])


if __name__ == "__main__":
    unittest.main()
