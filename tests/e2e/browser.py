"""The browser: Debian's Chromium, driven as a user would, watched for events that a user would not see."""

import os
import re

from playwright.sync_api import sync_playwright

from report import Failure

CHROMIUM = "/usr/bin/chromium"
VIEWPORT = {"width": 1280, "height": 900}
# Milliseconds. Admin pages of WordPress on a debug build and a busy machine take some seconds.
PATIENCE = 45_000


class Browser:
    """One Chromium for the whole run; every visitor has their own cookies."""

    def __init__(self, pictures):
        self.pictures = pictures
        self.driver = sync_playwright().start()
        # Chromium's own sandbox does not work for root, and it visits only our own pages.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        arguments += ["--disable-dev-shm-usage", "--disable-gpu"]
        self.chromium = self.driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        self.problems = []
        self.current = None
        self.shots = 0

    def visitor(self, own):
        """A page of a new visitor. Everything that goes wrong on `own` (host:port) is noted."""
        context = self.chromium.new_context(viewport=VIEWPORT, locale="en-GB")
        context.set_default_timeout(PATIENCE)
        # Avatars and the like live elsewhere; the run must not depend on other people's servers.
        context.route(re.compile(rf"^https?://(?!{re.escape(own)}/)"), lambda route: route.abort())
        page = context.new_page()
        page.on("response", self.note_response)
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        self.current = page
        return page

    def note_response(self, response):
        """Notes an answer that says that the server failed."""
        if response.status >= 500:
            self.problems.append(f"{response.status} for {response.request.method} {response.url}")

    @staticmethod
    def fill(page, fields):
        """Fills a form's fields, given as selector: value.

        A page's own script may move the focus meanwhile, as WordPress's login form does after a
        fifth of a second, and the typed text lands in another field: so all are looked at again.
        """
        for _ in range(5):
            for selector, value in fields.items():
                page.fill(selector, value)
            wrong = [selector for selector, value in fields.items()
                     if page.input_value(selector) != value]
            if not wrong:
                return
        raise Failure(f"the fields {', '.join(wrong)} do not keep what is typed")

    @staticmethod
    def follow(page, selector):
        """Clicks on a link or button that leads to another page, and waits until that is loaded."""
        with page.expect_navigation(wait_until="load"):
            page.locator(selector).first.click()

    def expect_no_problems(self):
        """Fails when anything went wrong since the last call, and forgets it."""
        problems, self.problems = self.problems, []
        if problems:
            raise Failure("\n".join(dict.fromkeys(problems)))

    def shot(self, page, name):
        """Keeps a picture of the page, numbered in the order of the steps."""
        self.current = page
        if self.pictures:
            self.shots += 1
            page.screenshot(path=self.pictures / f"{self.shots:02}-{name}.png")

    def shot_of_failure(self, step):
        """Keeps a picture of the page that was open when a step failed."""
        if self.pictures and self.current and not self.current.is_closed():
            name = re.sub(r"[^a-z0-9]+", "-", step.lower()).strip("-")
            self.shots += 1
            self.current.screenshot(path=self.pictures / f"{self.shots:02}-FAIL-{name}.png")

    def paint(self, path):
        """Makes a photograph-like JPEG to upload: dunes under an evening sky."""
        page = self.chromium.new_page(viewport={"width": 1600, "height": 1067})
        page.set_content(DUNES)
        page.screenshot(path=path, type="jpeg", quality=88)
        page.close()

    def close(self):
        """Ends the browser and its driver."""
        try:
            self.chromium.close()
        finally:
            self.driver.stop()


DUNES = """
<body style="margin:0"><svg width="1600" height="1067" viewBox="0 0 1600 1067">
<defs>
  <linearGradient id="sky" x2="0" y2="1"><stop offset="0" stop-color="#2b3a67"/>
    <stop offset=".55" stop-color="#d9805f"/><stop offset="1" stop-color="#f6d6a8"/></linearGradient>
  <linearGradient id="far" x2="0" y2="1"><stop offset="0" stop-color="#c26a4a"/>
    <stop offset="1" stop-color="#8f4a3a"/></linearGradient>
  <linearGradient id="near" x2="1" y2="1"><stop offset="0" stop-color="#a65a3e"/>
    <stop offset="1" stop-color="#3d2230"/></linearGradient>
  <radialGradient id="sun"><stop offset="0" stop-color="#fff6d8"/>
    <stop offset=".3" stop-color="#ffe2a0"/><stop offset="1" stop-color="#ffe2a0" stop-opacity="0"/>
  </radialGradient>
  <filter id="grain"><feTurbulence baseFrequency=".8" numOctaves="2"/>
    <feColorMatrix values="0 0 0 0 .3  0 0 0 0 .2  0 0 0 0 .2  0 0 0 .12 0"/></filter>
</defs>
<rect width="1600" height="1067" fill="url(#sky)"/>
<circle cx="1080" cy="520" r="260" fill="url(#sun)"/>
<path d="M0 640 Q300 520 620 640 T1200 600 T1600 640 V1067 H0Z" fill="url(#far)"/>
<path d="M0 780 Q420 600 820 800 T1600 740 V1067 H0Z" fill="url(#near)"/>
<path d="M0 930 Q500 800 1000 950 T1600 900 V1067 H0Z" fill="#2c1822"/>
<rect width="1600" height="1067" filter="url(#grain)"/>
</svg></body>
"""
