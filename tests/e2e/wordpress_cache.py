"""WordPress behind the response cache, with its plugin: in the browser, and in a random walk beside the uncached site.

Both servers have the same files and database. Everything is written through the cached one, as its purges reach
only its own cache.
"""

import shutil

import machine
import servers
import wordpress
import wordpress_walk
from report import check, equal

PLUGIN = machine.ROOT / "integrations" / "wordpress" / "howdah-cache"

# Effects of a shop on pages: they show the cart of their visitor, who is known by cookies. Comments of the walk come
# faster than WordPress allows.
SHOP = """<?php
add_filter('comment_flood_filter', '__return_false');
add_filter('wp_is_comment_flood', '__return_false');
add_action('init', function () {
    if (isset($_GET['add-to-cart'])) {
        $count = (int) ($_COOKIE['woocommerce_items_in_cart'] ?? 0) + 1;
        setcookie('woocommerce_items_in_cart', (string) $count, 0, '/');
        setcookie('woocommerce_cart_hash', preg_replace('/\\W/', '', $_GET['add-to-cart']), 0, '/');
        wp_safe_redirect(home_url('/'));
        exit;
    }
});
add_action('wp_footer', function () {
    $user = wp_get_current_user();
    $commenter = wp_get_current_commenter();
    printf("<p id='shop'>cart %s of %s, user %s, commenter %s</p>", esc_html($_COOKIE['woocommerce_items_in_cart'] ?? '0'),
        esc_html($_COOKIE['woocommerce_cart_hash'] ?? 'nobody'), esc_html($user->user_login ?: 'none'),
        esc_html($commenter['comment_author'] ?: 'none'));
});
"""


def run(session):
    """All steps."""
    Cached(session).run()


class Cached(wordpress.Caravan):
    """A WordPress site with a cache."""

    name = "wordpress_cache"
    site = {"cache": "wordpress"}

    def configuration(self, address):
        """The document of the cached site."""
        return self.document(address, {"preset": "wordpress"})

    def document(self, address, cache):
        """A document as docs/cache.md has it."""
        site = {"share": f"{self.root}$uri", "index": ["index.php"], "scripts": "applications/blog/direct",
                "fallback": {"pass": "applications/blog/front"}, "cache": cache}
        targets = {"direct": {"root": str(self.root)}, "front": {"root": str(self.root), "script": "index.php"}}
        return {"listeners": {address: {"pass": "routes"}}, "routes": [{"action": site}],
                "applications": {"blog": {"type": "php", "targets": targets}}}

    def run(self):
        step = self.step
        with step("wordpress with cache: install", needed=True):
            self.configure()
            self.install()
            self.log_in()
            self.permalinks()
        with step("wordpress with cache: activate the plugin", needed=True):
            self.activate()
        with step("wordpress with cache: write a post in the block editor", needed=True):
            self.visit("/", False)
            self.visit("/", True)
            self.write()
            check(wordpress.POST_TITLE in self.visit("/", False), "the front page does not have the new post")
        with step("wordpress with cache: visitors get the post from the cache"):
            self.read()
            self.visit(self.post, True)
            self.read()
        with step("wordpress with cache: a comment shows to others once it is approved"):
            self.comment()
            check(wordpress.COMMENT in self.guest.content(), "the commenter does not see the comment")
            self.unseen()
            self.approve()
            check(wordpress.COMMENT in self.visit(self.post, None), "the page does not have the approved comment")
        with step("wordpress with cache: a visitor with a cart sees that cart, others do not"):
            self.cart()
        with step("wordpress with cache: the editor's bar shows to the editor alone"):
            self.bar()
        with step("wordpress with cache: the button purges"):
            self.visit("/", None)
            self.visit("/", True)
            self.admin.goto(self.base)
            self.browser.follow(self.admin, "#wp-admin-bar-howdah-cache a")
            self.visit("/", False)
        with step("wordpress with cache: no server error and no script error was seen by the browser"):
            self.browser.expect_no_problems()
        wordpress_walk.walk(self)

    def activate(self):
        """Installs the plugin and the shop."""
        plugins = self.root / "wp-content" / "plugins"
        shutil.copytree(PLUGIN, plugins / PLUGIN.name)
        shop = self.root / "wp-content" / "mu-plugins"
        shop.mkdir(exist_ok=True)
        (shop / "shop.php").write_text(SHOP)
        machine.give_away(self.root / "wp-content")
        answer = self.api("PUT", "/wp/v2/plugins/howdah-cache/howdah-cache", {"status": "active"})
        equal("status of the activation", answer.status, 200)

    def visit(self, address, hit):
        """The page for a new visitor. `hit`: whether it must come from the cache, None if that does not matter."""
        context = self.browser.visitor(self.own)
        try:
            answer = context.goto(address if address.startswith("http") else self.base + address)
            equal(f"status of {address}", answer.status, 200)
            status = answer.headers.get("cache-status", "")
            if hit is not None and self.session.howdah:
                check(("; hit" in status) == hit, f"{address} has Cache-Status {status!r}; a hit was "
                      f"{'' if hit else 'not '}expected")
            return context.content()
        finally:
            context.context.close()

    def unseen(self):
        """No other visitor sees a comment that waits for approval."""
        for _ in range(2):
            check(wordpress.COMMENT not in self.visit(self.post, None), "a comment shows before it is approved")

    def cart(self):
        """A cart and its visitor."""
        page = self.browser.visitor(self.own)
        page.goto(f"{self.base}/?add-to-cart=camel")
        for address in ("/", "/hello-world/", self.post):
            page.goto(address if address.startswith("http") else self.base + address)
            check("cart 1 of camel" in page.content(), f"the cart is not on {address}")
            check("cart 0 of nobody" in self.visit(address, None), f"another's cart is on {address}")
        page.context.close()

    def bar(self):
        """Pages of a user, beside those of a visitor."""
        for _ in range(2):
            self.admin.goto(self.post)
            check(self.admin.locator("#wpadminbar").count() == 1, "the editor has no bar")
            check("wpadminbar" not in self.visit(self.post, None), "a visitor has the bar of the editor")

    def uncached(self):
        """Starts a server of the same files and database without a cache."""
        if not self.session.howdah:
            return self.session.oracle(self.name, self.root)
        site = {} if self.session.options.sites else None
        return self.session.own(servers.Howdah(
            self.session.howdah, self.session.directory / self.name / "uncached", self.root,
            lambda address: self.document(address, False), site=site))
