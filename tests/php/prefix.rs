//! Scripts under a prefix of the path that is not looked up (Apache's `Alias`, nginx's `alias`):
//! their variables, compared with nginx and PHP-FPM, and with Apache's mod_php.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use harness::backends::Backend;
use harness::fastcgi::{Socket, fpm};
use harness::{Server, Site, open_to_all, requirements};
use serde_json::{Value, json};

/// Reports the variables that depend on the prefix, one a line.
const REPORT: &str = "foreach (['SCRIPT_NAME', 'PHP_SELF', 'PATH_INFO', 'SCRIPT_FILENAME',
    'REQUEST_URI', 'QUERY_STRING', 'DOCUMENT_ROOT'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '', \"\\n\";";

/// Creates a site with a directory `tool` beside its document root.
fn site() -> (Site, String) {
    let site = Site::script("report.php", REPORT).file("index.php", format!("<?php {REPORT}"));
    let tool = site.data().parent().expect("the site's directory").join("tool");
    fs::create_dir_all(tool.join("sub")).unwrap();
    for name in ["report.php", "index.php", "sub/index.php"] {
        fs::write(tool.join(name), format!("<?php {REPORT}")).unwrap();
    }
    fs::write(tool.join("a.txt"), "text").unwrap();
    fs::write(tool.join("sub/a.txt"), "text").unwrap();
    open_to_all(&tool, 0o755);
    open_to_all(&tool.join("sub"), 0o755);
    (site, tool.display().to_string())
}

fn serve(site: Site, tool: &str, more: Value) -> Server {
    let mut action = json!({
        "share": format!("{tool}$uri"), "prefix": "/pr/", "index": "index.php",
        "scripts": "applications/site",
    });
    harness::merge(&mut action, more);
    let routes = json!([
        {"match": {"uri": ["/pr", "/pr/*"]}, "action": action},
        {"action": {"return": 404}},
    ]);
    site.with(json!({"routes": routes})).serve()
}

fn get(address: SocketAddr, target: &str) -> (String, String, String) {
    let mut client = harness::client::Client::connect(address);
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n\r\n"));
    let response = client.response();
    let location = response.field("location").unwrap_or_default();
    // The other servers write the whole URL.
    let path = location.split_once("a.org").map_or(location, |(_, path)| path);
    let path = path.trim_start_matches(|byte: char| byte == ':' || byte.is_ascii_digit());
    let text = if response.status == 200 { response.text() } else { String::new() };
    (response.status.to_string(), path.to_owned(), text)
}

const TARGETS: [&str; 10] = [
    "/pr",
    "/pr?a=b",
    "/pr/",
    "/pr/report.php?x=%20y",
    "/pr/report.php/a%20b/c?x",
    "/pr/sub",
    "/pr/sub/",
    "/pr/sub/a.txt",
    "/pr/none",
    "/prx/report.php",
];

#[test]
fn variables_under_a_prefix_are_those_of_php_fpm_behind_nginx() {
    let (site, tool) = site();
    let fpm = fpm(&Socket::Unix(64), 1, "");
    let socket = &fpm.address;
    let nginx = Backend::nginx_with(
        &[],
        "",
        &format!(
            "location ^~ /pr {{
                 alias {tool};
                 index index.php;
                 location ~ ^/pr(?<script>/.+?\\.php)(?<info>/.*)?$ {{
                     fastcgi_pass {socket};
                     fastcgi_param SCRIPT_FILENAME $document_root$script;
                     fastcgi_param SCRIPT_NAME /pr$script;
                     fastcgi_param PATH_INFO $info;
                     fastcgi_param QUERY_STRING $query_string;
                     fastcgi_param REQUEST_METHOD $request_method;
                     fastcgi_param REQUEST_URI $request_uri;
                     fastcgi_param DOCUMENT_ROOT $document_root;
                     alias {tool};
                 }}
             }}
             location /prx {{ return 404; }}"
        ),
    );
    let server = serve(site, &tool, json!({}));
    for target in TARGETS {
        let ours = get(server.address, target);
        assert_eq!(ours, get(nginx.address, target), "{target}");
    }
    let text = server.get("/pr/report.php/a").text();
    for line in ["SCRIPT_NAME=/pr/report.php", "PHP_SELF=/pr/report.php/a", "PATH_INFO=/a"] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(text.contains(&format!("DOCUMENT_ROOT={tool}\n")), "{text}");
}

#[test]
fn variables_under_a_prefix_are_those_of_mod_php_except_the_document_root() {
    let modules = Path::new("/usr/lib/apache2/modules");
    let php = modules.join(format!("libphp{}.so", harness::programs::php_version()));
    if !php.exists() || !Path::new("/usr/sbin/apache2").exists() {
        requirements::skipped(format_args!("there is no apache2 with {}", php.display()));
        return;
    }
    let (site, tool) = site();
    let modules = modules.display();
    let configuration = format!(
        "cat > apache.conf <<END\nServerRoot $PWD\nListen $1:$2\nPidFile $PWD/pid\n\
         ServerName a.org\nUser www-data\nGroup www-data\nErrorLog $PWD/errors\nMutex file:$PWD\n\
         LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule alias_module {modules}/mod_alias.so\n\
         LoadModule dir_module {modules}/mod_dir.so\n\
         LoadModule php_module {php}\nDirectoryIndex index.php\nDocumentRoot $PWD\n\
         <FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
         Alias /pr {tool}\nEND\nexec /usr/sbin/apache2 -f $PWD/apache.conf -X\n",
        php = php.display(),
    );
    let apache = Backend::program(&["sh"], &configuration, &[]);
    let server = serve(site, &tool, json!({}));
    let other = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with("DOCUMENT_ROOT="));
        lines.collect::<Vec<_>>().join("\n")
    };
    for target in TARGETS {
        let (status, location, text) = get(server.address, target);
        let theirs = get(apache.address, target);
        let theirs = (theirs.0, theirs.1, other(theirs.2));
        assert_eq!((status, location, other(text)), theirs, "{target}");
    }
}

#[test]
fn a_front_controller_under_a_prefix_gets_what_is_no_file() {
    let (site, tool) = site();
    let front = json!({"try": ["$uri", "/index.php"], "index": ""});
    let server = serve(site, &tool, front);
    let text = server.get("/pr/a/b?c=d").text();
    for line in ["SCRIPT_NAME=/pr/index.php", "REQUEST_URI=/pr/a/b?c=d", "PATH_INFO="] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert_eq!(server.get("/pr/a.txt").text(), "text");
    assert_eq!(server.get("/report.php").status, 404);
}

#[test]
fn a_target_with_a_prefix_runs_the_scripts_of_its_root() {
    let (site, tool) = site();
    let server = site
        .with(json!({
            "routes": [{"action": {"pass": "applications/shop"}}],
            "applications": {"shop": {"type": "php", "root": tool, "prefix": "/pr"}},
        }))
        .serve();
    let text = server.get("/pr/report.php/a?b").text();
    for line in ["SCRIPT_NAME=/pr/report.php", "PHP_SELF=/pr/report.php/a", "PATH_INFO=/a"] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(server.get("/pr/sub/").text().contains("SCRIPT_NAME=/pr/sub/index.php\n"));
    for (target, path) in [("/pr", "/pr/"), ("/pr/sub", "/pr/sub/")] {
        let response = server.get(target);
        let location = response.field("location").unwrap_or_default();
        assert!(response.status == 301 && location.ends_with(path), "{response:?}");
    }
    for target in ["/report.php", "/prx/report.php", "/"] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
}

#[test]
fn no_path_leads_out_of_the_directory_under_a_prefix() {
    let (site, tool) = site();
    fs::write(Path::new(&tool).join(".hidden"), "secret").unwrap();
    let server = serve(site, &tool, json!({}));
    for target in [
        "/pr/../www/report.php",
        "/pr/%2e%2e/www/report.php",
        "/pr/..%2fwww/report.php",
        "/pr/.hidden",
        "/pr/sub/../.hidden",
        "/pr/report.php%00",
        "/pr%2f..%2fwww/report.php",
    ] {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 403 | 404), "{target}: {response:?}");
    }
    let response = server.get("/pr//sub");
    assert_eq!(response.field("location"), Some("/pr/sub/"), "{response:?}");
}
