//! `howdah htaccess convert`: a server with the routes answers as one that reads the `.htaccess` files.

use std::process::Command;

use harness::client::Response;
use harness::{Server, Site, free_address, programs};
use serde_json::{Value, json};

const FRONT: &str = "<?php header('X-From: ' . basename(__FILE__)); echo basename(__FILE__), ' ', \
                     $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'], ' ', \
                     ($_SERVER['HTTP_AUTHORIZATION'] ?? '') ?: '-';";

/// Result of a conversion.
struct Converted {
    document: Value,
    notes: String,
    is_complete: bool,
}

fn convert(site: &Site, address: &str) -> Converted {
    let mut command = Command::new(programs::howdah());
    command.args(["htaccess", "convert", "--listen", address]).arg(site.root());
    let output = programs::run(&mut command);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    let document =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {notes}"));
    Converted { document, notes, is_complete: output.status.success() }
}

/// A site as it is, and converted.
struct Pair {
    files: Server,
    routes: Server,
    notes: String,
    is_complete: bool,
}

/// Requests with the same answer from both; `GET /path Name: value|Name: value`.
impl Pair {
    fn new(tree: impl Fn(Site) -> Site) -> Pair {
        let files = tree(Site::new());
        let htaccess = json!({
            "routes": null,
            "applications": { "site": { "htaccess": true } },
        });
        let address = free_address().to_string();
        let changes = json!({ "listeners": { &address: { "pass": "applications/site" } } });
        let files =
            files.with(htaccess).with(json!({ "routes": [] })).with(changes).serve_at(&address);
        let site = tree(Site::new());
        let address = free_address().to_string();
        let converted = convert(&site, &address);
        let path = site.data().join("converted.json");
        std::fs::write(&path, converted.document.to_string()).unwrap();
        let mut command = Command::new(programs::howdah());
        let checked = programs::run(command.arg("check").arg(&path));
        let text = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success(), "{text}\n{:#}", converted.document);
        let empty = json!({ "listeners": null, "routes": null, "applications": {}, });
        let mut document = converted.document.clone();
        if document.get("applications").is_none() {
            document["applications"] = json!({});
        }
        let routes = site
            .with(empty)
            .with(json!({ "applications": null }))
            .with(document)
            .serve_at(&address);
        Pair { files, routes, notes: converted.notes, is_complete: converted.is_complete }
    }

    /// Returns the answers of both.
    fn ask(&self, request: &str) -> (Response, Response) {
        let (line, fields) = request.split_once(" - ").unwrap_or((request, ""));
        let (method, target) = line.split_once(' ').unwrap_or(("GET", line));
        let mut text = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        if !fields.contains("Host:") {
            text.push_str("Host: a.example\r\n");
        }
        for field in fields.split('|').filter(|field| !field.is_empty()) {
            text.push_str(&format!("{field}\r\n"));
        }
        text.push_str("\r\n");
        let ask = |server: &Server| {
            let mut client = server.connect();
            client.send(&text);
            if method == "HEAD" { client.head_response() } else { client.response() }
        };
        (ask(&self.files), ask(&self.routes))
    }

    /// Asks both servers and compares the answers.
    fn same(&self, requests: &[&str]) {
        for request in requests {
            let (files, routes) = self.ask(request);
            let of = |response: &Response| {
                let mut seen = vec![response.status.to_string()];
                for name in [
                    "Location",
                    "X-From",
                    "X-A",
                    "X-B",
                    "Cache-Control",
                    "WWW-Authenticate",
                    "Content-Type",
                ] {
                    let value = response.field(name).map(location).unwrap_or_default();
                    // Pages about errors are the server's own, and fields of files are not theirs.
                    let is_own = response.status >= 300 && name == "Content-Type"
                        || response.status >= 400 && name != "WWW-Authenticate";
                    let value = value.trim_end_matches(", charset=\"UTF-8\"");
                    if !value.is_empty() && !is_own {
                        seen.push(format!("{name}: {value}"));
                    }
                }
                if response.status == 200 {
                    seen.push(response.text());
                }
                seen
            };
            assert_eq!(of(&routes), of(&files), "{request}\n{}\n{}", self.notes, self.routes.log());
        }
    }

    fn complete(self) -> Pair {
        assert!(self.is_complete, "{}", self.notes);
        self
    }

    fn statuses(&self, requests: &[(&str, u16, u16)]) {
        for (request, files, routes) in requests {
            let answers = self.ask(request);
            assert_eq!(
                (answers.0.status, answers.1.status),
                (*files, *routes),
                "{request}\n{}",
                self.notes
            );
        }
    }
}

/// A location without the site's own host: Apache writes absolute URLs.
fn location(value: &str) -> &str {
    value.strip_prefix("http://a.example").unwrap_or(value)
}

fn application(site: Site) -> Site {
    site.file("index.php", FRONT).file("a.txt", "text").file("css/a.css", "css")
}

#[test]
fn wordpress_has_its_permalinks_and_its_closed_files() {
    let pair = Pair::new(|site| {
        application(site)
            .file("wp-config.php", FRONT)
            .file("wp-login.php", FRONT)
            .file("wp-content/uploads/a.jpg", "picture")
            .file("wp-content/uploads/.htaccess", "<Files *.php>\nDeny from all\n</Files>\n")
            .file("wp-content/uploads/evil.php", FRONT)
            .file("wp-includes/a.php", FRONT)
            .file(
                ".htaccess",
                "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
                 RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\n\
                 RewriteRule ^index\\.php$ - [L]\n\
                 RewriteRule ^wp-includes/[^/]+\\.php$ - [F,L]\n\
                 RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
                 RewriteRule . /index.php [L]\n</IfModule>\n# END WordPress\n\
                 <Files wp-config.php>\nOrder allow,deny\nDeny from all\n</Files>\n\
                 <FilesMatch \"\\.(sql|log|bak)$\">\nRequire all denied\n</FilesMatch>\n\
                 Options -Indexes\nServerSignature Off\n",
            )
            .file("dump.sql", "secret")
    })
    .complete();
    pair.same(&[
        "/",
        "/index.php?a=b",
        "/2026/05/a-post/?x=1",
        "/a.txt",
        "/css/a.css",
        "/wp-login.php",
        "/wp-config.php",
        "/wp-config.php/x",
        "/dump.sql",
        "/dump.sql?x",
        "/DUMP.SQL",
        "/missing.sql",
        "/%64ump.sql",
        "/wp-includes/a.php",
        "/wp-content/uploads/a.jpg",
        "/wp-content/uploads/evil.php",
        "/wp-content/uploads/evil.php/x",
        "/wp-content/uploads/none.jpg",
        "/.htaccess",
        "/wp-content/uploads/.htaccess",
        "/page - Authorization: Basic YTpi",
        "HEAD /page",
    ]);
}

#[test]
fn laravel_symfony_and_drupal_have_their_front_controllers() {
    let laravel = "<IfModule mod_rewrite.c>\n<IfModule mod_negotiation.c>\nOptions -MultiViews -Indexes\n\
                   </IfModule>\nRewriteEngine On\n\
                   RewriteCond %{HTTP:Authorization} .\n\
                   RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
                   RewriteCond %{HTTP:x-xsrf-token} .\n\
                   RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
                   RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\n\
                   RewriteRule ^ %1 [L,R=301]\n\
                   RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\n\
                   RewriteRule ^ index.php [L]\n</IfModule>\n";
    let pair = Pair::new(|site| application(site).file(".htaccess", laravel)).complete();
    let requests =
        ["/", "/posts/1?page=2", "/posts/", "/posts/?a=b", "/a.txt", "/css/a.css", "/index.php"];
    pair.same(&requests);
    let symfony = "DirectoryIndex index.php\nRewriteEngine On\n\
                   RewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\\2$\nRewriteRule .* - [E=BASE:%1]\n\
                   RewriteCond %{HTTP:Authorization} .+\n\
                   RewriteRule ^ - [E=HTTP_AUTHORIZATION:%0]\n\
                   RewriteCond %{ENV:REDIRECT_STATUS} =\"\"\n\
                   RewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]\n\
                   RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ %{ENV:BASE}/index.php [L]\n";
    let pair = Pair::new(|site| application(site).file(".htaccess", symfony)).complete();
    pair.same(&["/", "/posts/1?page=2", "/css/", "/a.txt", "/index.php/x?a=b", "/index.php"]);
    let drupal = "<FilesMatch \"\\.(engine|inc|install|module|profile|po|sh|.*sql|theme|twig|yml)(~|\\.sw[op]|\\.bak)?$|^composer\\.(json|lock)$|^\\.\">\n\
                  Require all denied\n</FilesMatch>\nOptions -Indexes\nDirectoryIndex index.php index.html\n\
                  ErrorDocument 404 /index.php\nRewriteEngine on\n\
                  RewriteRule ^core/install\\.php$ - [F]\n\
                  RewriteRule \"/vendor/|^vendor/\" - [F]\n\
                  RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
                  RewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteRule ^ index.php [L]\n\
                  Header always set X-A nosniff\n";
    let pair = Pair::new(|site| {
        application(site)
            .file(".htaccess", drupal)
            .file("core/a.yml", "secret")
            .file("core/install.php", FRONT)
            .file("vendor/a.txt", "secret")
            .file("composer.json", "{}")
            .file("composer.json.txt", "open")
    })
    .complete();
    pair.same(&[
        "/",
        "/node/1",
        "/core/a.yml",
        "/core/install.php",
        "/vendor/a.txt",
        "/x/vendor/y",
        "/composer.json",
        "/composer.json.txt",
        "/a.txt",
        "/core/none.yml",
    ]);
    let (files, routes) = pair.ask("/core/a.yml");
    assert_eq!((files.field("X-A"), routes.field("X-A")), (Some("nosniff"), Some("nosniff")));
}

#[test]
fn denials_by_directory_and_name_stay_closed() {
    let pair = Pair::new(|site| {
        application(site)
            .file("data/.htaccess", "Require all denied\n")
            .file("data/app.sqlite", "secret")
            .file("data/open/.htaccess", "Require all granted\n")
            .file("data/open/a.txt", "open")
            .file("old/.htaccess", "Order deny,allow\nDeny from all\n<Files public.txt>\nAllow from all\n</Files>\n")
            .file("old/a.txt", "secret")
            .file("old/public.txt", "open")
            .file("local/.htaccess", "Require ip 127.0.0.1 10.0.0.0/8\n")
            .file("local/a.txt", "here")
            .file("other/.htaccess", "Require ip 192.0.2.1\n")
            .file("other/a.txt", "secret")
            .file("bots/.htaccess", "SetEnvIfNoCase User-Agent \"evil\" bad\nOrder allow,deny\nAllow from all\nDeny from env=bad\n")
            .file("bots/a.txt", "open")
            .file("posts/.htaccess", "<LimitExcept GET POST>\nRequire all denied\n</LimitExcept>\n")
            .file("posts/a.txt", "open")
            .file("gone/.htaccess", "Redirect gone /gone/a.txt\nRedirectMatch 404 \\.git\n")
            .file("gone/a.txt", "secret")
            .file("gone/b.txt", "open")
            .file("rewritten/.htaccess", "RewriteEngine On\nRewriteRule ^(.*)\\.dat$ ../data/$1 [L]\nRewriteRule ^to-data$ /data/app.sqlite [L]\n")
            .file("broken/.htaccess", "Foo bar\n")
            .file("broken/a.txt", "secret")
            .file("odd %2a*/.htaccess", "Require all denied\n")
            .file("odd %2a*/a.txt", "secret")
            .file("no-index/.htaccess", "<Files index.html>\nRequire all denied\n</Files>\n")
            .file("no-index/index.html", "secret")
    });
    pair.same(&[
        "/data/app.sqlite",
        "/data",
        "/data/",
        "/data/none",
        "/data/open/a.txt",
        "/%64ata/app.sqlite",
        "//data//app.sqlite",
        "/css/../data/app.sqlite",
        "/old/a.txt",
        "/old/public.txt",
        "/local/a.txt",
        "/other/a.txt",
        "/bots/a.txt",
        "/bots/a.txt - User-Agent: an EVIL one",
        "/posts/a.txt",
        "PUT /posts/a.txt - Content-Length: 0",
        "/gone/a.txt",
        "/gone/b.txt",
        "/gone/.git/config",
        "/rewritten/to-data",
        "/broken/a.txt",
        "/odd%20%252a*/a.txt",
        "/no-index/index.html",
        "/no-index/",
        "/a.txt",
    ]);
    assert!(pair.notes.contains("broken/.htaccess: "), "{}", pair.notes);
}

#[test]
fn redirects_lead_to_the_same_places() {
    let pair = Pair::new(|site| {
        application(site).file(
            ".htaccess",
            "RewriteEngine On\n\
             RewriteCond %{HTTP_HOST} ^www\\.(.+)$ [NC]\nRewriteRule ^(.*)$ https://%1/$1 [R=301,L]\n\
             RewriteCond %{HTTP_HOST} =secure.example\nRewriteCond %{HTTPS} off\n\
             RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [L,R=301]\n\
             RewriteRule ^old/([0-9]+)/(.*)$ /new/$2?id=$1 [R=302,L,QSA]\n\
             RewriteRule ^drop$ /dropped? [R,L]\nRewriteRule ^gone\\.html$ - [G]\n\
             RewriteCond %{QUERY_STRING} ^page=([0-9]+)$\nRewriteRule ^list$ /list-of-pages? [R=301,L]\n\
             Redirect 301 /moved https://new.example/base\nRedirect permanent /one.html /two.html\n\
             RedirectMatch 303 ^/m/(.*)\\.asp$ /m/$1.php\nRedirectTemp /temp /elsewhere\n",
        )
    })
    .complete();
    pair.same(&[
        "/page?x=1 - Host: www.a.example",
        "/ - Host: WWW.a.example",
        "/a/b?x=1 - Host: secure.example",
        "/old/7/a/b?x=1",
        "/old/x/a",
        "/drop?x=1",
        "/gone.html",
        "/list?page=2",
        "/list?page=x",
        "/moved",
        "/moved/a%20b?x=1",
        "/movedx",
        "/one.html?x=1",
        "/m/a/b.asp?x=1",
        "/temp",
        "/a.txt",
    ]);
}

#[test]
fn fields_lifetimes_types_and_error_pages_are_kept() {
    let pair = Pair::new(|site| {
        application(site)
            .file("a.html", "<p>")
            .file("sw.js", "js")
            .file("a.woff2", "font")
            .file("a.foo", "foo")
            .file("errors/404.html", "not here")
            .file("sub/.htaccess", "Header set X-B sub\nHeader unset X-A\nDirectoryIndex start.txt\n")
            .file("sub/start.txt", "start")
            .file("sub/a.css", "css")
            .file(
                ".htaccess",
                "Header set X-A \"50%% $1\"\n<FilesMatch \"\\.(css|woff2?)$\">\nHeader set X-B font\n</FilesMatch>\n\
                 <Files sw.js>\nHeader set X-B worker\n</Files>\n\
                 ExpiresActive On\nExpiresByType text/css \"access plus 1 year\"\nExpiresByType text/javascript A60\n\
                 ErrorDocument 404 /errors/404.html\nAddType text/x-foo .foo\nAddDefaultCharset UTF-8\n\
                 FileETag None\n",
            )
    })
    .complete();
    pair.same(&[
        "/a.html",
        "/a.txt",
        "/css/a.css",
        "/sw.js",
        "/a.woff2",
        "/a.foo",
        "/none",
        "/sub/",
        "/sub/a.css",
        "/sub/start.txt",
    ]);
    let (files, routes) = pair.ask("/none");
    assert_eq!(files.text(), routes.text());
    assert_eq!(routes.text(), "not here");
}

#[test]
fn a_password_is_asked_for_in_the_same_places() {
    // howdah: SHA-1 of "open sesame".
    let users = "ali:{SHA}ZRRNvvgWQWzvGAHKfT7hZjzTD2s=\n";
    let pair = Pair::new(|site| {
        let file = site.root().join("private/users.txt");
        let rules = format!(
            "AuthType Basic\nAuthName \"Staff only\"\nAuthUserFile {}\nRequire valid-user\n\
             <Files users.txt>\nRequire all denied\n</Files>\n",
            file.display()
        );
        application(site)
            .file("private/users.txt", users)
            .file("private/.htaccess", rules)
            .file("private/a.txt", "secret")
            .file("private/index.php", FRONT)
    })
    .complete();
    pair.same(&[
        "/private/a.txt",
        "/private/a.txt - Authorization: Basic YWxpOndyb25n",
        "/private/users.txt",
        "/private/index.php",
        "/private",
        "/a.txt",
    ]);
    // Groups and single users are not known to routes.
    let pair = Pair::new(|site| {
        let file = site.root().join("private/users.txt");
        let rules = format!(
            "AuthType Basic\nAuthName a\nAuthUserFile {}\nRequire user ali\n",
            file.display()
        );
        application(site)
            .file("private/users.txt", users)
            .file("private/.htaccess", rules)
            .file("private/a.txt", "secret")
    });
    pair.statuses(&[("/private/a.txt", 401, 403), ("/a.txt", 200, 200)]);
    assert!(
        !pair.is_complete
            && pair
                .notes
                .contains("line 4: Require user ali: not converted, what it may deny is refused")
    );
}

#[test]
fn what_does_not_convert_is_named_and_never_opens_anything() {
    for (rules, line, path) in [
        ("RewriteEngine On\nRewriteRule ^(?!public/).*secret - [F]\n", 2, "/x/secret.txt"),
        ("<If \"%{QUERY_STRING} !~ /token=/\">\nRequire all denied\n</If>\n", 1, "/x/secret.txt"),
        (
            "<FilesMatch \"^(?!public).*\\.txt$\">\nRequire all denied\n</FilesMatch>\n",
            1,
            "/x/secret.txt",
        ),
        (
            "RewriteEngine On\nRewriteCond %{HTTP_COOKIE} !session=(?=a)\nRewriteRule ^x/ /a.txt [L]\n",
            3,
            "/x/secret.txt",
        ),
        (
            "RewriteEngine On\nRewriteCond %{TIME_HOUR} >25 [OR]\nRewriteCond %{TIME_HOUR} >=00\nRewriteRule ^x/ - [F]\n",
            4,
            "/x/secret.txt",
        ),
        ("Order allow,deny\nAllow from all\nDeny from example.org\n", 3, "/x/secret.txt"),
        ("AddHandler application/x-httpd-php .txt\n", 1, "/x/secret.txt"),
        (
            "<RequireAll>\nRequire all granted\nRequire not expr %{REQUEST_URI} =~ /secret/\n</RequireAll>\n",
            3,
            "/x/secret.txt",
        ),
    ] {
        let pair = Pair::new(|site| {
            application(site).file("x/secret.txt", "secret").file(".htaccess", rules)
        });
        let (_, routes) = pair.ask(path);
        assert_eq!(routes.status, 403, "{rules}: {}", pair.notes);
        assert!(!pair.is_complete, "{rules}");
        let expected = format!(".htaccess: line {line}: ");
        assert!(
            pair.notes.contains(&expected) && pair.notes.contains("is refused"),
            "{rules}: {}",
            pair.notes
        );
    }
    // Nothing is closed by what protects nothing.
    let rules = "RewriteEngine On\nRewriteRule ^p/(.*)$ /index.php?p=$1 [L]\n\
                 Header append Vary Cookie\nErrorDocument 403 \"no\"\nSetEnv A b\nOptions +MultiViews\n";
    let pair = Pair::new(|site| application(site).file(".htaccess", rules));
    pair.statuses(&[("/a.txt", 200, 200), ("/", 200, 200), ("/p/x", 200, 403)]);
    for line in
        ["line 2: RewriteRule", "line 3: Header append", "line 4: ErrorDocument", "line 6: Options"]
    {
        assert!(!pair.is_complete && pair.notes.contains(line), "{line}: {}", pair.notes);
    }
}

#[test]
fn a_directory_is_closed_with_its_index_file_and_behind_links() {
    let pair = Pair::new(|site| {
        let link = site.root().join("link");
        let site = application(site)
            .file(".htaccess", "RewriteEngine On\nRewriteRule ^four/index\\.html$ - [F]\n")
            .file("four/index.html", "secret")
            .file("node_modules/.htaccess", "Require all denied\n")
            .file("node_modules/a.txt", "secret");
        std::os::unix::fs::symlink("node_modules", &link).unwrap();
        std::os::unix::fs::symlink("..", site.root().join("css/up")).unwrap();
        site
    });
    pair.same(&[
        "/four/",
        "/four/index.html",
        "/node_modules/a.txt",
        "/link/a.txt",
        "/link/",
        "/css/a.css",
    ]);
    // Nothing is reached by a way around.
    for path in ["/css/up/node_modules/a.txt", "/css/up/four/", "/css/up/css/up/link/a.txt"] {
        assert_eq!(pair.ask(path).1.status, 403, "{path}");
    }
}

#[test]
fn php_has_its_settings_and_runs_only_where_it_may() {
    let code = "<?php echo ini_get('memory_limit'), ini_get('display_errors'), getenv('STAGE');";
    let pair = Pair::new(|site| {
        site.file("index.php", code)
            .file("up/a.php", code)
            .file("up/.htaccess", "php_flag engine off\n")
            .file(
                ".htaccess",
                "php_value memory_limit 77M\nphp_flag display_errors on\nSetEnv STAGE live\n",
            )
    })
    .complete();
    pair.same(&["/", "/index.php"]);
    let (_, routes) = pair.ask("/up/a.php");
    assert!(routes.status == 403 && !routes.text().contains("<?php"), "{routes:?}");
}

#[test]
fn a_directory_below_has_rules_of_its_own() {
    let pair = Pair::new(|site| {
        application(site)
            .file(".htaccess", "RewriteEngine On\nRewriteRule ^(.*)$ public/$1 [L]\n")
            .file("public/.htaccess", "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n")
            .file("public/index.php", FRONT)
            .file("public/b.txt", "b")
            .file("secret.txt", "secret")
    })
    .complete();
    pair.same(&["/", "/b.txt", "/secret.txt", "/page?x=1", "/public/b.txt", "/css/a.css"]);
}
