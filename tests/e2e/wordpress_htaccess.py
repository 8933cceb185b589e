"""WordPress on a server that reads `.htaccess`: it finds mod_rewrite and writes its rules itself.

The oracle is Apache over the same files, with no rules but those that WordPress has written.
"""

import wordpress
import wordpress_pages
from compare import Comparison, crawl
from report import Failure, check

ACCEPTED = tuple(entry for entry in wordpress_pages.ACCEPTED if "status 404" not in entry.what)


def run(session):
    """All steps."""
    Hosted(session).run()


class Hosted(wordpress.Caravan):
    """A WordPress site as on shared hosting."""

    name = "wordpress_htaccess"

    def configuration(self, address):
        """The document: one application, all of whose requests obey the files."""
        return {"listeners": {address: {"pass": "applications/blog"}},
                "applications": {"blog": {"type": "php", "root": str(self.root), "htaccess": {
                    "index": ["index.php", "index.html"], "options": "FollowSymLinks"}}}}

    def run(self):
        step = self.step
        with step("wordpress with .htaccess: the web installer writes the configuration", needed=True):
            self.configure()
        with step("wordpress with .htaccess: the web installer creates the site", needed=True):
            self.install()
        with step("wordpress with .htaccess: log in", needed=True):
            self.log_in()
        with step("wordpress with .htaccess: WordPress finds mod_rewrite and writes its rules"):
            self.permalinks()
            self.rules_written()
        with step("wordpress with .htaccess: a rule of the owner holds at once"):
            self.own_rule()
        with step("wordpress with .htaccess: every page and asset for a visitor as with Apache"):
            self.compare()
        with step("wordpress with .htaccess: no server error and no script error was seen by the browser"):
            self.browser.expect_no_problems()

    def rules_written(self):
        """The page of permalinks has written the file, and does not ask the user to write it."""
        rules = (self.root / ".htaccess").read_text()
        for line in ("# BEGIN WordPress", "RewriteEngine On", "RewriteRule . /index.php [L]"):
            check(line in rules, f".htaccess has no line {line!r}:\n{rules}")
        self.admin.goto(f"{self.base}/wp-admin/options-permalink.php")
        by_hand = self.admin.locator("textarea#rules").count()
        check(by_hand == 0, "WordPress asks the administrator to write the rules by hand")

    def own_rule(self):
        """A line that the owner adds holds for the next request."""
        file = self.root / ".htaccess"
        rules = file.read_text()
        file.write_text("Redirect 301 /old-page /hello-world/\n" + rules)
        answer = self.guest.request.get(f"{self.base}/old-page", max_redirects=0)
        check(answer.status == 301, f"the new rule is not followed: {answer.status}")
        file.write_text(rules)
        answer = self.guest.request.get(f"{self.base}/old-page", max_redirects=0)
        check(answer.status == 404, f"the removed rule is still followed: {answer.status}")

    def compare(self):
        """Compares the pages of a visitor with Apache."""
        oracle = self.session.oracle(self.name, self.root)
        comparison = Comparison(self.server, oracle, self.own, wordpress_pages.MASKS, ACCEPTED)
        seeds = [seed.replace("{host}", self.own) for seed in wordpress_pages.SEEDS]
        found = crawl(comparison, seeds, wanted=wordpress_pages.wanted_by_visitor)
        self.session.report.note(f"answers compared: {comparison.summary()}")
        self.session.note_accepted(comparison)
        if found:
            raise Failure("\n".join(found))
