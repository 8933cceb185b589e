"""The page of `howdah dashboard`, in Chromium: thirty sites of which six have a fault, hostile names, clicks and keys,
a phone, the dark, five hundred sites, and a day's data.

The policy of the page forbids all code but its own files. Chromium reports what it refuses, which fails the step.
"""

import contextlib
import json
import re
import threading
import time
import urllib.request

import machine
import servers
from peers import Process
from report import check, equal

# Code of the sites with a fault, and the words that name it.
FAULTS = {
    "sleeps": ("sleep(600);", r"slow: "),
    "leaks": ("for ($i = 0; $i < 6000; $i++) { if ($i < 400) $a[] = str_repeat('x', 1 << 20); usleep(100000); }", r"memory \+"),
    "crashes": ("posix_kill(getmypid(), 11);", r"crash"),
    "forks": ("for ($i = 0; $i < 20; $i++) exec('sleep 600 > /dev/null 2>&1 &'); echo 1;", r"programs of scripts"),
    "burns": ("for (;;) { }", r"(uses|gets) "),
    "floods": ("for ($i = 0; $i < 6000; $i++) { error_log(str_repeat('x', 20000)); usleep(20000); }", r"log "),
}
GOOD = [f"good{number:02}" for number in range(23)]
# A name that would be code if the page took it for markup.
HOSTILE = "<img src=x onerror=alert(1)>"
# Seconds.
PATIENCE = 45
PHONE = {"width": 360, "height": 780}


def run(session):
    """All steps."""
    with contextlib.ExitStack() as ends:
        Dashboard(session, ends).run()


class Page:
    """A `howdah dashboard` of a server."""

    def __init__(self, session, server, name):
        log = session.directory / "dashboard" / f"{name}.log"
        command = [session.howdah, "dashboard", "--control", f"unix:{server.socket}", "--listen", "127.0.0.1:0"]
        self.process, self.log = Process("howdah dashboard", command, log), log
        session.own(self)
        self.process.wait_for(self.links, "link")

    def links(self):
        """The links that were printed."""
        return re.findall(r"http://\S+#log-in=\w+", self.log.read_text() if self.log.exists() else "")

    def stop(self):
        """Ends it."""
        self.process.stop()


class Dashboard:
    """The page, its server, and its visitors."""

    def __init__(self, session, ends):
        self.session = session
        self.step = session.report.step
        self.browser = session.browser
        self.ends = ends
        self.directory = session.directory / "dashboard"
        self.directory.mkdir()
        self.directory.chmod(0o755)

    def run(self):
        """The steps in the order of a first look."""
        step = self.step
        names = dict.fromkeys(GOOD, "usleep(1000); echo 1;") | {HOSTILE: "echo 1;"}
        names |= {name: code for name, (code, _) in FAULTS.items()}
        self.server = self.serve("thirty", names)
        self.page = Page(self.session, self.server, "page")
        self.visit(list(names))
        own = re.match(r"http://([^/]+)/", self.page.links()[0])[1]
        self.base = f"http://{own}/"
        self.user = self.watched(self.browser.visitor(own))
        # Its page would miss its server during the next application.
        self.ends.callback(self.user.context.close)
        with step("dashboard: a link logs in once, and leaves no code in the history", needed=True):
            self.log_in()
        with step("dashboard: six faults among thirty sites are named"):
            self.faults()
        with step("dashboard: names are text, and the list can be filtered and sorted"):
            self.choose()
        with step("dashboard: a site has its processes, slow scripts with stacks and requests"):
            self.detail()
        with step("dashboard: the keyboard is enough"):
            self.keyboard()
        with step("dashboard: a button restarts a site after a question"):
            self.restart()
        with step("dashboard: the last requests are live and can be chosen"):
            self.requests()
        with step("dashboard: the other parts"):
            self.parts()
        with step("dashboard: a phone, and the dark"):
            self.phone()
        with step("dashboard: a day's data"):
            self.day()
        with step("dashboard: five hundred sites"):
            self.many()
        with step("dashboard: after the log-out the link is worth nothing, and the next one logs in"):
            self.log_out()
        with step("dashboard: no server error, no script error, nothing that the policy forbids"):
            self.browser.expect_no_problems()

    def serve(self, name, scripts, more=None):
        """A server with an application for each script, at a path with its name."""
        applications, routes = {}, []
        for number, (site, code) in enumerate(scripts.items()):
            root = self.directory / f"{name}-{number}"
            root.mkdir()
            root.chmod(0o755)
            (root / "index.php").write_text(f"<?php {code}")
            options = {"admin": {"memory_limit": "2G", "max_execution_time": "0"}}
            applications[site] = {"type": "php", "root": str(root), "script": "index.php", "options": options,
                                  "processes": {"max": 1, "spare": 0} if more else 1}
            routes.append({"match": {"uri": f"/{number}"}, "action": {"pass": f"applications/{quoted(site)}"}})
        routes.append({"action": {"return": 200}})
        document = {"applications": applications, "routes": routes}
        server = servers.Howdah(self.session.howdah, self.directory / name, self.directory,
                                lambda address: {"listeners": {address: {"pass": "routes"}}, **document}, controlled=True)
        return self.session.own(server)

    def visit(self, names):
        """Asks all sites now and then until the end."""
        over = threading.Event()
        self.ends.callback(over.set)

        def ask(number):
            while not over.wait(1):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/{number}?token=s3cret", timeout=30).read()

        for number in range(len(names)):
            threading.Thread(target=ask, args=(number,), daemon=True).start()

    def watched(self, page):
        """Notes what Chromium refuses or a script reports."""
        def note(message):
            if message.type == "error" and "401" not in message.text:
                self.browser.problems.append(f"console: {message.text}")
        page.on("console", note)
        page.on("dialog", lambda dialog: self.browser.problems.append(f"a dialog: {dialog.message}"))
        return page

    def other(self, page=None, **options):
        """A page in a context of its own, logged in."""
        page = page or self.page
        context = self.browser.chromium.new_context(locale="en-GB", **options)
        self.ends.callback(context.close)
        used = len(page.links())
        user = self.watched(context.new_page())
        user.goto(page.links()[-1])
        user.wait_for_selector(".row")
        page.process.wait_for(lambda: len(page.links()) > used, "next link")
        return user

    def log_in(self):
        user, links = self.user, self.page.links()
        user.goto(self.base)
        user.get_by_label("Code or token").fill("wrong")
        user.get_by_role("button", name="Log in").click()
        user.get_by_text("the terminal has the next one").wait_for()
        self.browser.problems.clear()  # the refusal is an error in the console
        user.goto("about:blank")
        user.goto(links[0])
        user.wait_for_selector(".row")
        check("log-in" not in user.url, user.url)
        check(not [c for c in user.context.cookies() if not c["httpOnly"] or c["sameSite"] != "Strict"], "the cookie")
        self.page.process.wait_for(lambda: len(self.page.links()) == 2, "next link")

    def faults(self):
        for name, (_, words) in FAULTS.items():
            card = self.user.locator(".trouble", has=self.user.get_by_role("link", name=name, exact=True))
            card.get_by_text(re.compile(words)).first.wait_for()
            row = self.user.locator(".row", has=self.user.get_by_role("link", name=name, exact=True))
            row.get_by_text(re.compile(words)).first.wait_for()
        self.browser.shot(self.user, "dashboard-sites")

    def shown(self):
        """The names in the list."""
        return self.user.locator(".row .of-name a").all_inner_texts()

    def choose(self):
        user = self.user
        user.keyboard.press("/")
        user.keyboard.type("onerror")
        until(user, "document.querySelectorAll('.row').length === 1")
        equal("the list", self.shown(), [HOSTILE])
        equal("pictures", user.locator("#main img").count(), 0)
        user.get_by_label("Filter by name").fill("good")
        user.get_by_label("Idle sites, too").check()
        user.get_by_role("columnheader", name="Site").get_by_role("button").click()
        until(user, "document.querySelector('.row .of-name a').textContent === 'good00'")
        names = self.shown()
        equal("the order", names, sorted(names))
        equal("aria-sort", user.get_by_role("columnheader", name="Site").get_attribute("aria-sort"), "ascending")
        user.get_by_role("columnheader", name="Memory").get_by_role("button").click()
        user.get_by_label("Filter by name").fill("")
        user.get_by_label("Order").select_option("trouble")
        user.get_by_label("Idle sites, too").uncheck()
        user.get_by_role("button", name="1 h").click()
        user.get_by_role("button", name="5 min").click()
        check(user.locator(".row path.line[d^='M']").first.get_attribute("d"), "no line is drawn")

    def detail(self):
        user = self.user
        user.locator(".row").get_by_role("link", name="sleeps", exact=True).click()
        user.get_by_role("heading", name="sleeps").wait_for()
        user.get_by_role("region", name="Processes").get_by_text("/index.php").first.wait_for()
        user.get_by_text("slow: script runs").wait_for()
        # After the limit for slow scripts.
        user.locator("details summary").first.click()
        user.get_by_text("#0 sleep(").first.wait_for()
        self.browser.shot(user, "dashboard-site")
        user.goto(f"{self.base}#/site/crashes")
        user.get_by_role("region", name="Last errors").get_by_text("token=***").first.wait_for()
        check("s3cret" not in user.locator("main").inner_text(), "a secret is shown")
        user.goto(f"{self.base}#/site/{quoted(HOSTILE)}")
        user.get_by_role("heading", name=HOSTILE).wait_for()

    def keyboard(self):
        user = self.user
        user.keyboard.press("Escape")
        user.wait_for_selector(".row")
        user.keyboard.press("/")
        focused = "document.activeElement.textContent"
        for _ in range(40):
            user.keyboard.press("Tab")
            if user.evaluate("Boolean(document.activeElement.closest('.row'))"):
                break
        first = user.evaluate(focused)
        user.keyboard.press("ArrowDown")
        second = user.evaluate(focused)
        check(first != second and second in self.shown(), f"the arrow leads from {first} to {second}")
        user.keyboard.press("End")
        user.keyboard.press("Home")
        user.keyboard.press("Enter")
        user.get_by_role("region", name="Processes").wait_for()
        user.keyboard.press("Escape")
        user.wait_for_selector(".row")
        nameless = user.evaluate("""() => [...document.querySelectorAll('a, button, input, select')].filter(each =>
            !each.textContent.trim() && !each.getAttribute('aria-label') && !each.labels?.length).map(each => each.outerHTML)""")
        equal("elements without a name", nameless, [])

    def restart(self):
        user = self.user
        user.goto(f"{self.base}#/site/good00")
        before = self.server.control("/pools/good00/procs/0/pid")
        user.get_by_role("button", name="Restart").click()
        user.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        user.get_by_role("button", name="Restart").click()
        user.get_by_role("dialog").get_by_role("button", name="Restart").click()
        user.get_by_text("restarted", exact=True).wait_for()
        deadline = time.monotonic() + PATIENCE
        while self.process_of("good00") in (before, None):
            check(time.monotonic() < deadline, "the process is the same")
            time.sleep(0.2)

    def process_of(self, name):
        with contextlib.suppress(servers.Unusable):
            return self.server.control(f"/pools/{name}/procs/0/pid")
        return None

    def requests(self):
        user = self.user
        user.get_by_role("link", name="Requests").click()
        user.wait_for_selector("tr.fresh")
        user.get_by_label("Status").select_option("5xx")
        user.wait_for_selector("table.requests tbody .status.bad")
        until(user, "![...document.querySelectorAll('table.requests tbody .status')].some(each => each.textContent < '500')")
        user.get_by_label("Site", exact=True).fill("good01")
        user.keyboard.press("Tab")
        user.get_by_text("No such request so far").wait_for()
        user.get_by_label("Status").select_option("")
        user.wait_for_selector("table.requests tbody td:has-text('good01')")
        user.get_by_role("button", name="Pause").click()
        user.get_by_role("button", name="Continue").click()
        user.get_by_label("Site", exact=True).fill("")
        user.keyboard.press("Tab")
        self.browser.shot(user, "dashboard-requests")

    def parts(self):
        user = self.user
        for name, words in (("Upstreams", "no upstream"), ("Caches", "no cache"), ("Limits", "no limit"),
                            ("Certificates", "No listener"), ("Document", "in use as a whole")):
            user.get_by_role("link", name=name).click()
            user.get_by_text(words).first.wait_for()
        user.get_by_role("button", name="Reload").click()
        user.get_by_role("dialog").get_by_role("button", name="Cancel").click()

    def phone(self):
        for scheme in ("light", "dark"):
            user = self.other(viewport=PHONE, color_scheme=scheme, has_touch=True)
            for part in ("#/", "#/site/sleeps", "#/requests", "#/document"):
                user.goto(f"{self.base}{part}")
                user.wait_for_timeout(500)
                width = user.evaluate("document.documentElement.scrollWidth")
                check(width <= PHONE["width"], f"{part} is {width} wide")
            user.goto(f"{self.base}#/")
            user.wait_for_selector(".trouble")
            light = user.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] > 128")
            equal("light", light, scheme == "light")
            self.browser.shot(user, f"dashboard-phone-{scheme}")
        user.get_by_role("button", name="Light").tap()
        check(user.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] > 128"), "still dark")

    def day(self):
        user = self.other(viewport={"width": 1280, "height": 900})

        def answer(route):
            ids = re.search(r"ids=([\d%C,]+)", route.request.url)[1].replace("%2C", ",").split(",")
            values = [[(at * 7 % 50) / 10 for at in range(240)] for _ in range(4)] + [[5e7 + at * 1e5 for at in range(240)]]
            route.fulfill(json={"second": 90_000, "points": 240, "sites": dict.fromkeys(ids, values)})

        user.route("**/api/histories*range=1d*", answer)
        user.get_by_role("button", name="1 day").click()
        user.get_by_text("1 day ago").first.wait_for()
        until(user, "document.querySelectorAll('figure path.line')[4].getAttribute('d').split('L').length === 240")
        self.browser.shot(user, "dashboard-day")

    def many(self):
        names = {f"site{number:03}.example": "echo 1;" for number in range(500)}
        server = self.serve("many", names, more=True)
        page = Page(self.session, server, "many")
        user = self.watched(self.browser.chromium.new_context(viewport={"width": 1280, "height": 900}).new_page())
        self.ends.callback(user.context.close)
        user.goto(page.links()[-1])
        user.get_by_label("Idle sites, too").check()
        user.get_by_text(re.compile(r"^50[01] sites$")).wait_for()  # the listener has had a request
        few = "document.querySelectorAll('.row').length"
        check(user.evaluate(few) < 60, f"{user.evaluate(few)} rows are drawn")
        user.get_by_label("Order").select_option("name")
        user.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        user.locator(".row").get_by_text("site499.example").wait_for()
        check(user.evaluate(few) < 60, f"{user.evaluate(few)} rows are drawn")
        user.get_by_label("Filter by name").fill("site25")
        until(user, "document.querySelectorAll('.row').length === 10")
        self.browser.shot(user, "dashboard-500")

    def log_out(self):
        self.user.get_by_role("button", name="Log out").click()
        self.user.get_by_label("Code or token").wait_for()
        self.user.goto("about:blank")
        self.user.goto(self.page.links()[0])
        self.user.get_by_text("the terminal has the next one").wait_for()
        # The tab is at the page, so that the browser loads nothing.
        self.user.goto(self.page.links()[-1])
        self.user.wait_for_selector(".row")
        self.browser.problems[:] = [each for each in self.browser.problems if "403" not in each]


def until(page, condition):
    """Waits for a condition, which Playwright cannot: its way needs `eval`, which the policy of the page forbids."""
    deadline = time.monotonic() + PATIENCE
    while not page.evaluate(condition):
        check(time.monotonic() < deadline, condition)
        time.sleep(0.1)


def quoted(name):
    """A name in a path."""
    return urllib.request.quote(name, safe="")
