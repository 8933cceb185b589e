//! What the files close stays closed, whatever is not converted.

use howdah_config::parse;
use serde_json::Value;

use crate::variants::finds;
use crate::{Conversion, File, Site, convert};

/// Files with their rules, as pairs of a directory and its content.
pub fn converted(files: &[(&str, &str)]) -> Conversion {
    let files: Vec<File> = { files.iter() }
        .map(|(directory, content)| File {
            directory: directory.as_bytes().to_vec(),
            path: format!("/www/{directory}/.htaccess"),
            content: Ok(content.as_bytes().to_vec()),
        })
        .collect();
    let exists = |path: &[u8]| path.starts_with(b"/www");
    let site =
        Site { root: "/www", listener: "*:80", files: &files, has_php: true, exists: &exists };
    let conversion = convert(&site);
    parse(conversion.document.to_string().as_bytes()).unwrap();
    conversion
}

/// What the routes answer to a request for a file that exists, of a client that sends no header fields: 200 where
/// a file is served.
pub fn status(document: &Value, route: &str, method: &str, path: &str) -> u64 {
    answer(document, route, method, path, 0).0
}

/// Returns the status, and the path of what is served.
pub fn answer(
    document: &Value,
    route: &str,
    method: &str,
    path: &str,
    depth: u32,
) -> (u64, String) {
    if depth > 20 {
        return (500, path.to_owned());
    }
    for step in document["routes"][route].as_array().unwrap() {
        let conditions = &step["match"];
        if !holds(&conditions["uri"], path) || !holds(&conditions["method"], method) || {
            ["query", "headers", "host", "source", "if", "scheme"].iter()
        }
        .any(|name| conditions.get(name).is_some())
        {
            continue;
        }
        return act(document, &step["action"], method, path, depth);
    }
    (404, path.to_owned())
}

fn act(document: &Value, action: &Value, method: &str, path: &str, depth: u32) -> (u64, String) {
    let here = |status| (status, path.to_owned());
    if let Some(status) = action["return"].as_u64() {
        return here(status);
    }
    if action.get("allow").is_some() || action.get("basic_auth").is_some() {
        return here(403);
    }
    if action.get("share").is_some() {
        let is_missing =
            path.contains("nosuch") || path.ends_with('/') && action.get("try").is_some();
        return match (is_missing, action.get("fallback")) {
            (true, Some(fallback)) => act(document, fallback, method, path, depth + 1),
            (true, None) => here(404),
            (false, _) => here(200),
        };
    }
    let path = match action["rewrite"].as_str() {
        Some(template) => template.replace("${uri}", path).replace("$uri", path),
        None => path.to_owned(),
    };
    let pass = action["pass"].as_str().unwrap();
    if let Some(route) = pass.strip_prefix("routes/") {
        return answer(document, route, method, &path, depth + 1);
    }
    let target = pass.rsplit('/').next().unwrap();
    match document["applications"]["site"]["targets"][target]["script"].as_str() {
        Some(script) => (200, format!("/{script}")),
        None => (200, path),
    }
}

fn holds(patterns: &Value, text: &str) -> bool {
    let list = match patterns {
        Value::Null => return true,
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let accepts = |pattern: &str| match pattern.strip_prefix('~') {
        Some(expression) => finds(expression, text),
        None => {
            let parts: Vec<String> =
                pattern.split('*').map(|part| crate::pcre::escape(part.as_bytes())).collect();
            finds(&format!("(?s)^{}$", parts.join(".*")), text)
        }
    };
    let (excluding, accepting): (Vec<&str>, Vec<&str>) =
        list.iter().map(|one| one.as_str().unwrap()).partition(|one| one.starts_with('!'));
    (accepting.is_empty() || accepting.into_iter().any(accepts))
        && !excluding.into_iter().any(|one| accepts(&one[1..]))
}

/// Asserts which paths are closed, and which are not.
#[track_caller]
fn check(files: &[(&str, &str)], closed: &[&str], open: &[&str]) -> Conversion {
    let conversion = converted(files);
    let ask = |path: &str| {
        let (method, path) = path.split_once(' ').unwrap_or(("GET", path));
        status(&conversion.document, "main", method, path)
    };
    for path in closed {
        assert_ne!(ask(path), 200, "{path}: {:#}", conversion.document);
    }
    for path in open {
        assert_eq!(ask(path), 200, "{path}: {:#}", conversion.document);
    }
    conversion
}

#[test]
fn a_section_holds_in_its_directory_and_not_beside_it() {
    let files =
        "Require all denied\n<FilesMatch \"\\.(jpg|pdf)$\">\nRequire all granted\n</FilesMatch>\n";
    let files = [("files", files), ("files-private", "Require all denied\n")];
    let closed = ["/files-private/a.pdf", "/files/a.txt"];
    check(&files, &closed, &["/files/a.pdf", "/files/b/a.jpg", "/a.pdf"]);
}

#[test]
fn the_switch_of_rules_is_inherited_and_the_rules_are_not() {
    let child = "RewriteRule \\.ini$ - [F]\n";
    let files = [("", "RewriteEngine On\n"), ("a", child)];
    assert!(check(&files, &["/a/x.ini"], &["/x.ini", "/a/x"]).is_complete());
    let files =
        [("", "RewriteEngine On\nRewriteRule \\.sql$ - [F]\n"), ("a", "RewriteEngine Off\n")];
    check(&files, &["/x.sql"], &["/a/x.sql"]);
}

#[test]
fn rules_that_are_taken_over_close_the_directory() {
    let parent = "RewriteEngine On\nRewriteRule \\.sql$ - [F]\n";
    for option in ["Inherit", "InheritBefore"] {
        let child = format!("RewriteEngine On\nRewriteOptions {option}\n");
        let conversion = check(&[("", parent), ("a", &child)], &["/a/x.sql", "/x.sql"], &["/x"]);
        assert!(!conversion.is_complete());
    }
    let parent = format!("RewriteOptions InheritDown\n{parent}");
    let conversion = check(&[("", &parent), ("a", "RewriteEngine On\n")], &["/a/x.sql"], &["/x"]);
    assert!(!conversion.is_complete());
}

#[test]
fn a_directory_is_closed_if_its_index_file_is() {
    check(&[("a", "Redirect 403 /a/index.php\n")], &["/a/", "/a/index.php"], &["/", "/a/b"]);
    let any = "DirectoryIndex b.php\nRedirectMatch 403 (?i)\\.PHP\n";
    check(&[("a", any)], &["/a/", "/a/b.PHP"], &["/a/x"]);
    let away = "RewriteEngine On\nRewriteRule ^index\\.php$ /x [R,L]\n";
    check(&[("a", away)], &["/a/", "/a/index.php"], &["/a/x", "/a/b/", "/"]);
    let others = "RewriteEngine On\nRewriteRule !^$ - [F]\n";
    check(&[("a", others)], &["/a/", "/a/x"], &["/"]);
    let stopped =
        "RewriteEngine On\nRewriteRule ^index\\.html$ - [L]\nRewriteRule ^index\\.php$ - [F]\n";
    check(&[("a", stopped)], &["/a/", "/a/index.php"], &["/a/index.html"]);
}

#[test]
fn the_index_file_is_asked_for_with_get() {
    let limit = "<Limit GET>\nRequire ip 10.0.0.0/8\n</Limit>\n";
    check(&[("a", limit)], &["/a/", "POST /a/", "/a/x"], &["POST /a/x", "POST /"]);
    let rule = "RewriteEngine On\nRewriteCond %{REQUEST_METHOD} GET\nRewriteRule index - [F]\n";
    check(&[("a", rule)], &["/a/", "POST /a/"], &["POST /a/index.php"]);
}

#[test]
fn a_test_of_another_file_is_none_of_missing_files() {
    for subject in ["%{HTTP:X-K} !-f", "%{HTTPS} !-f", "%{REQUEST_URI} -f", "/www/closed -f"] {
        let rules = format!("RewriteEngine On\nRewriteCond {subject}\nRewriteRule \\.bak$ x [L]\n");
        let conversion = check(&[("a", &rules)], &["/a/x.bak"], &["/a/x"]);
        assert!(!conversion.is_complete(), "{subject}");
    }
    for subject in ["%{REQUEST_FILENAME} -f", "%{REQUEST_FILENAME} !-d"] {
        let rules = format!("RewriteEngine On\nRewriteCond {subject}\nRewriteRule \\.bak$ x [L]\n");
        check(&[("a", &rules)], &["/a/x.bak"], &["/a/x"]);
    }
}

#[test]
fn a_redirect_that_depends_on_the_client_closes_its_paths() {
    for subject in ["%{HTTP:X-K} >a", "%{TIME_HOUR} >12", "%{REMOTE_USER} ^$"] {
        let rules =
            format!("RewriteEngine On\nRewriteCond {subject}\nRewriteRule \\.bak$ /login [R,L]\n");
        let conversion = check(&[("a", &rules)], &["/a/x.bak"], &["/a/x"]);
        assert!(!conversion.is_complete(), "{subject}");
    }
}

#[test]
fn rules_in_sections_close_their_files() {
    let rules = "RewriteEngine On\nRewriteRule . /x [L]\n";
    let section = format!("<FilesMatch \"\\.(sql|bak)$\">\n{rules}</FilesMatch>\n");
    let conversion = check(&[("a", &section)], &["/a/x.sql"], &["/a/x"]);
    assert!(!conversion.is_complete());
    let section = format!("<If \"%{{HTTP_COOKIE}} == 'a'\">\n{rules}</If>\n");
    check(&[("a", &section)], &["/a/x.sql"], &["/x"]);
}

#[test]
fn links_that_are_not_followed_close_what_is_rewritten() {
    let files = [("", "RewriteEngine On\n"), ("a", "Options -FollowSymLinks\n")];
    check(&files, &["/a/x"], &["/x"]);
}

#[test]
fn a_rule_that_is_repeated_closes_its_paths() {
    let rules = "RewriteEngine On\nRewriteRule \\.php$ - [N=1]\n";
    check(&[("a", rules)], &["/a/x.php"], &["/a/x"]);
}

#[test]
fn a_denial_for_all_methods_holds_in_a_section_for_some() {
    let rules = "Order deny,allow\nDeny from all\n<Limit GET>\nOrder allow,deny\nAllow from all\n</Limit>\n";
    let document = converted(&[("", rules)]).document;
    for method in ["GET", "POST"] {
        assert_eq!(status(&document, "main", method, "/x.txt"), 403, "{method}");
    }
}

#[test]
fn a_directory_is_closed_whose_own_index_file_is_closed_further_up() {
    let rules =
        "DirectoryIndex s.php\n<Files index.php>\nOrder deny,allow\nDeny from all\n</Files>\n";
    let document = converted(&[("a", rules), ("a/b", "DirectoryIndex index.php\n")]).document;
    assert_eq!(status(&document, "main", "GET", "/a/b/"), 403);
}

#[test]
fn a_handler_of_a_former_host_closes_no_scripts_and_what_switches_php_off_does() {
    for name in
        ["application/x-lsphp84", "fcgid-script", "\"proxy:unix:/run/a.sock|fcgi://localhost\""]
    {
        let rules = format!(
            "<FilesMatch \"\\.(php|phtml)$\">\nSetHandler {name}\n</FilesMatch>\nAddHandler {name} .php .php7\n"
        );
        check(&[("a", &rules)], &[], &["/a/x.php", "/a/x.txt"]);
    }
    for name in
        ["none", "default-handler", "text/plain", "cgi-script", "application/x-httpd-php-source"]
    {
        let rules = format!("<FilesMatch \"\\.php$\">\nSetHandler {name}\n</FilesMatch>\n");
        check(&[("a", &rules)], &["/a/x.php"], &["/a/x.txt", "/x.php"]);
    }
}
