"""Small trees of the shape of the applications in docs/examples/, and the requests that are compared.

A file ending in `.php` is a script that returns its view of the request.
"""

TELL = """<?php
header('Content-Type: application/json');
header('X-Powered-By: PHP/8');
$told = [];
foreach (['SCRIPT_NAME', 'PHP_SELF', 'REQUEST_URI', 'QUERY_STRING', 'PATH_INFO', 'SCRIPT_FILENAME', 'HTTPS',
          'REQUEST_METHOD', 'HTTP_HOST', 'SERVER_NAME', 'REMOTE_USER', 'POOL'] as $name)
    $told[$name] = ($_SERVER[$name] ?? '') === '' ? null : $_SERVER[$name];
$told += ['get' => $_GET, 'post' => $_POST, 'body' => strlen(file_get_contents('php://input'))];
if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
echo json_encode($told, JSON_UNESCAPED_SLASHES), "\\n";
"""

# {example: (its host; a request may name another one, as in "GET //other.example.org/path", and a field behind the path, as in
# "GET /path {X-Token: a}";
# its files below /srv, its requests)}
SITES = {
    "laravel": ("shop.example.org", ["shop/public/index.php", "shop/public/other.php", "shop/public/robots.txt",
                                     "shop/public/build/app.css", "shop/public/.env", "shop/.env"], [
        "GET /", "GET /?a=b&a=c", "GET /cart/items?page=2", "POST /login", "GET /index.php", "GET /index.php?x=1",
        "GET /robots.txt", "GET /build/app.css", "HEAD /build/app.css", "GET /other.php", "GET /none.php",
        "GET /a%20b/c%2Fd", "GET /../.env", "GET /favicon.ico", "GET /cart?status=404", "PUT /api/items/1",
    ]),
    "drupal": ("drupal.example.org", ["drupal/web/index.php", "drupal/web/update.php", "drupal/web/core/install.php",
                                      "drupal/web/robots.txt", "drupal/web/sites/default/files/a.css",
                                      "drupal/web/sites/default/files/x.php", "drupal/web/CHANGELOG.txt",
                                      "drupal/web/sites/default/private/a.html", "drupal/vendor/a.php"], [
        "GET /", "GET /node/1?page=2", "POST /user/login", "GET /index.php", "GET /index.php?q=node/1",
        "GET /update.php", "GET /core/install.php", "GET /core/install.php?rewrite=ok", "GET /robots.txt",
        "GET /CHANGELOG.txt", "GET /sites/default/files/a.css", "GET /sites/default/files/x.php",
        "GET /sites/default/private/a.html", "GET /.git/config", "GET /none.php",
        "GET /sites/default/files/styles/thumb/a.jpg?itok=x", "HEAD /sites/default/files/a.css",
        "GET /sites/default/files/x.php/y", "GET /core/install.php/x", "GET /vendor/a.php/y",
        "GET /x.y/a.php/b", "GET /none.php/x",
    ]),
    "wordpress-multisite": ("blogs.example.org", [
        "blogs/index.php", "blogs/wp-login.php", "blogs/wp-admin/index.php", "blogs/wp-includes/ms-files.php",
        "blogs/wp-config.php", "blogs/wp-content/uploads/a.css", "blogs/wp-content/uploads/x.php",
        "blogs/wp-includes/js/a.css"], [
        "GET /", "GET /2024/05/hello/?replytocom=3", "GET /site2/", "GET /site2/hello-world/", "GET /wp-login.php",
        "POST /wp-login.php", "GET /site2/wp-login.php?redirect_to=x", "GET /site2/wp-admin/", "GET /wp-admin/",
        "GET /wp-admin", "GET /site2/wp-includes/js/a.css", "GET /wp-includes/js/a.css",
        "GET /files/2010/01/a.jpg", "GET /site2/files/2010/01/a.jpg?w=3", "GET /wp-config.php",
        "GET /wp-content/uploads/x.php", "GET /wp-content/uploads/a.css", "GET /none.php", "GET /site2/none.php",
        "GET /wp-content/uploads/x.php/y", "GET /wp-config.php/y", "GET /site2/wp-content/uploads/x.php/y",
    ]),
    "phpmyadmin": ("admin.example.org", ["www/index.html", "www/a.php", "phpmyadmin/index.php",
                                         "phpmyadmin/themes/a.css", "phpmyadmin/setup/index.php",
                                         "phpmyadmin/libraries/a.php"], [
        "GET /", "GET /a.php?x=y", "GET /phpmyadmin", "GET /phpmyadmin/", "GET /phpmyadmin/index.php?route=/sql",
        "POST /phpmyadmin/index.php", "GET /phpmyadmin/themes/a.css", "GET /phpmyadmin/setup/index.php",
        "GET /phpmyadmin/libraries/a.php", "GET /phpmyadmin/none.css", "GET /none",
    ]),
    "matomo": ("stats.example.org", ["matomo/index.php", "matomo/matomo.php", "matomo/piwik.php", "matomo/js/index.php",
                                     "matomo/console.php", "matomo/config/a.html", "matomo/tmp/a.html",
                                     "matomo/plugins/A/a.css", "matomo/plugins/A/a.json", "matomo/vendor/a.json",
                                     "matomo/a.html", "matomo/robots.txt"], [
        "GET /", "GET /index.php?module=Login", "POST /matomo.php", "GET /matomo.php?idsite=1&rec=1",
        "GET /piwik.php", "GET /js/index.php", "GET /js/", "GET /console.php", "GET /none.php", "GET /config/a.html",
        "GET /tmp/a.html", "GET /plugins/A/a.css", "GET /plugins/A/a.json", "GET /vendor/a.json", "GET /a.html",
        "GET /robots.txt", "GET /none", "GET /console.php/x",
    ]),
    "mediawiki": ("wiki.example.org", ["wiki/w/index.php", "wiki/w/load.php", "wiki/w/api.php", "wiki/w/config.php",
                                       "wiki/w/images/a/ab/a.png", "wiki/w/images/deleted/a.png",
                                       "wiki/w/skins/S/a.css", "wiki/w/skins/S/a.json", "wiki/favicon.ico"], [
        "GET /", "GET /wiki/Main_Page", "GET /wiki/Talk:A%26B?action=edit", "GET /wiki/%C3%84pfel/Sorten",
        "GET /w/index.php?title=A", "POST /w/index.php?title=A&action=submit", "GET /w/load.php?modules=a|b",
        "GET /w/api.php", "GET /w/config.php", "GET /w/images/a/ab/a.png", "GET /w/images/deleted/a.png",
        "GET /w/skins/S/a.css", "GET /w/skins/S/none.css", "GET /w/skins/S/a.json", "GET /favicon.ico", "GET /other",
    ]),
    "fpm-pools": ("blog.example.org", ["blog/index.php", "blog/a.css", "shop/index.php", "shop/missing.html"], [
        "GET /", "GET /index.php?a=b", "GET /a.css", "GET /none", "GET //shop.example.org/",
        "GET //shop.example.org/index.php?status=404", "GET //shop.example.org/index.php?status=503",
        "POST //shop.example.org/index.php", "GET //shop.example.org/none",
    ]),
    "nextcloud": ("cloud.example.org", ["cloud/index.php", "cloud/remote.php", "cloud/status.php", "cloud/ocs/v2.php",
                                        "cloud/core/css/a.css", "cloud/config/config.php", "cloud/robots.txt",
                                        "cloud/apps/a/b.php", "cloud/occ"], [
        "GET /", "GET /login?a=b", "GET /apps/files/?dir=/", "GET /remote.php/dav/files/me/a.txt",
        "PUT /remote.php/dav/files/me/a.txt", "GET /status.php", "GET /ocs/v2.php/cloud/user?format=json",
        "GET /.well-known/carddav", "GET /.well-known/webfinger?resource=x", "GET /config/config.php", "GET /occ",
        "GET /core/css/a.css", "GET /core/css/none.css", "GET /robots.txt", "GET /remote/x", "GET /.git/config",
        "GET /data/x",
    ]),
    "magento": ("store.example.org", ["store/pub/index.php", "store/pub/get.php", "store/pub/static.php",
                                      "store/pub/errors/404.php", "store/pub/health_check.php", "store/pub/cron.php",
                                      "store/pub/static/frontend/a.css", "store/pub/media/catalog/a.png",
                                      "store/pub/media/customer/x.png"], [
        "GET /", "GET /catalog/product/view/id/3?x=y", "POST /checkout/cart/add", "GET /index.php?a=b",
        "GET /static/frontend/a.css", "GET /static/version123/frontend/a.css", "GET /static/frontend/none.css",
        "GET /static/version123/frontend/none.css", "GET /media/catalog/a.png", "GET /media/catalog/b.png?w=3",
        "GET /media/customer/x.png", "GET /cron.php", "GET /cron.php/x", "GET /health_check.php",
    ]),
    "https": ("www.example.org", ["www/index.html", "www/a.css", "www/sub/index.html"], [
        "GET /", "GET /a.css?x", "GET //example.org/a", "GET https://www.example.org/",
        "GET https://www.example.org/a.css", "GET https://www.example.org/sub/", "GET https://www.example.org/none",
        "GET https://www.example.org/none.css", "GET https://example.org/a?b=c", "HEAD https://www.example.org/a.css",
    ]),
    "balancer": ("app.example.org", [], [
        "GET /", "GET /a%20b?c=d", "POST /form", "GET /api/items?x=1", "GET /api/a%2Fb", "GET /redirect", "GET /error",
        "GET /login", "GET /login", "GET /login", "GET /login", "GET /login",
    ]),
    "apache-wordpress": ("blog.example.org", [
        "blog/index.php", "blog/wp-login.php", "blog/wp-admin/index.php", "blog/wp-content/uploads/a.css",
        "blog/wp-content/uploads/x.php", "blog/wp-content/themes/t/style.css", "blog/.htaccess", "blog/wp-config.php"], [
        "GET /", "GET /2024/05/hello/?replytocom=3", "POST /wp-login.php", "GET /wp-login.php", "GET /wp-admin/",
        "GET /wp-admin", "GET /wp-content/uploads/a.css", "GET /wp-content/uploads/x.php", "GET /wp-config.php",
        "GET /wp-content/themes/t/style.css", "GET /feed.xml", "GET /.htaccess", "GET /index.php?p=1", "HEAD /",
        "GET /wp-content/none.css", "GET /index.php/a/b?c", "GET /wp-content/uploads/x.php/y",
    ]),
    "apache-virtual-host": ("www.example.org", [
        "www/index.php", "www/a.css", "www/a.html", "www/settings.inc", "www/dump.sql", "www/upload/evil.php",
        "www/upload/a.phtml", "www/upload/a.png", "www/old/x.html", "www/reports/index.php", "www/api/index.php",
        "www/api/tool.php", "www/errors/404.html", "www/.htpasswd", "webmail/public/index.php", "webmail/public/a.css",
        "webmail/public/installer/index.php", "webmail/public/settings.inc", "webmail/config.php", "www/mailing.php"], [
        "GET /", "GET //example.org/a?b=c%20&d=?", "GET /a.css", "HEAD /a.css", "GET /a.html", "GET /a.css?x=1",
        "GET /settings.inc", "GET /settings.inc?x=1", "GET /dump.sql", "GET /upload/evil.php", "GET /upload/evil.php/x",
        "GET /upload/a.phtml", "GET /upload/a.png", "GET /old", "GET /old/x.html", "GET /older", "GET /blog",
        "GET /blog/a/b?c=d", "GET /blogger", "GET /p/12?x=1", "GET /p/x", "GET /reports/", "GET /reports",
        "GET /reports/ {X-Token: sesame}", "GET /reports/ {X-Token: SESAME}", "GET /reports/ {X-Token: x}",
        "GET //www.example.org/reports/../reports/", "GET /%72eports/", "GET /item/7?x=1", "GET /item/x",
        "GET /api/orders/1?x=1", "POST /api/orders", "GET /api/tool.php", "GET /mail/", "GET /mail",
        "GET /mail/index.php/a?b=c", "GET /mail/a.css", "GET /mail/installer/", "GET /mail/installer/index.php/x",
        "GET /mail/settings.inc", "GET /mail/../webmail/config.php", "GET /mail/..%2fconfig.php", "GET /mailing.php",
        "GET /none", "GET /none.php", "GET /.htpasswd", "POST /index.php?x=1", "GET /index.php/x/y",
    ]),
    "woocommerce": ("shop.example.org", [
        "shop/index.php", "shop/wp-login.php", "shop/xmlrpc.php", "shop/wp-admin/index.php",
        "shop/wp-content/uploads/evil.php", "shop/wp-content/uploads/a.png", "shop/wp-content/a.css"], [
        "GET /", "GET /", "GET /hello/", "GET /hello/", "HEAD /news/", "GET /hello/?x=1", "GET /hello/?x=1", "POST /hello/",
        "GET /cart/", "GET /cart/", "GET /my-account/orders/", "GET /my-account/orders/", "GET /checkout/?step=2",
        "GET /hello/ {Cookie: wordpress_logged_in_x=1}", "GET /new/ {Cookie: woocommerce_items_in_cart=1}",
        "GET /other/ {Cookie: consent=1}", "GET /other/", "GET /wp-login.php", "POST /wp-login.php", "GET /wp-admin/",
        "GET /xmlrpc.php", "POST /xmlrpc.php", "GET /wp-content/uploads/evil.php", "GET /wp-content/uploads/a.png",
        "GET /wp-content/a.css", "GET /shop.html", "GET /shop.html?x=1", "GET /SHOP.html", "GET /about-us.php",
        "GET /product-blue-hat.html", "GET /product-.html", "GET /blog/2024/a/b?c=d", "GET /blog/x", "GET /error/?status=404",
    ]),
    "mass-hosting": ("site1.example.org", [
        f"sites/site{number}.example.org/public/{name}" for number in range(500) for name in ("index.php", "a.css")], [
        "GET /", "GET /a.css", "GET /news/1?page=2", "GET /none.php", "GET //site499.example.org/",
        "GET //www.site250.example.org/index.php?a=b", "GET //site250.example.org/a.css",
        "GET //site500x.example.com/", "GET //unknown.test/", "POST //site3.example.org/form",
    ]),
}

# The contents of files that are not told by their names.
CONTENTS = {
    "blog/.htaccess": """# BEGIN WordPress
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
# END WordPress
<Files wp-config.php>
    Require all denied
</Files>
""",
}
