//! Status and header fields, and the files that are run at all.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use harness::{Answer, Application, Request};

#[test]
fn a_status_can_be_set_in_each_of_phps_ways() {
    let mut application = Application::start(1);
    let mut status = |code: &str| {
        let answer = application.run(code);
        assert_eq!(answer.field("Status"), None, "Status is not a field of the response");
        (answer.status, answer.reason)
    };
    assert_eq!(status("http_response_code(404);"), (404, String::new()));
    assert_eq!(status("header('HTTP/1.1 418 Short and stout');"), (418, "Short and stout".into()));
    assert_eq!(status("header('Status: 503 Busy');"), (503, "Busy".into()));
    assert_eq!(status("header('Status: nonsense');"), (200, String::new()));
    assert_eq!(status("header('Location: /x');"), (302, String::new()));
    assert_eq!(status("header('Location: /x', true, 301);"), (301, String::new()));
    assert_eq!(status("header('HTTP/1.1 99999 x');").0, 500);
    assert_eq!(status("http_response_code(103); echo 'x';").0, 500);
    assert_eq!(status("http_response_code(204);"), (204, String::new()));
}

#[test]
fn header_fields_arrive_as_they_were_set() {
    let mut application = Application::start(1);
    let answer = application.run(
        "header_remove('X-Powered-By'); header('X-One: 1'); header('X-One: 2', false);
         header('Content-Type: text/plain'); setcookie('a', 'b'); header('X-Gone: 1');
         header_remove('X-Gone'); echo 'x';",
    );
    assert_eq!(
        answer.fields,
        ["X-One: 1", "X-One: 2", "Content-type: text/plain;charset=UTF-8", "Set-Cookie: a=b"]
    );
}

#[test]
fn headers_cannot_be_split() {
    let mut application = Application::start(1);
    let answer = application.run("header(\"X-A: 1\\r\\nX-B: 2\"); header(\"X-C: \\0\"); echo 1;");
    assert_eq!((answer.field("X-A"), answer.field("X-B"), answer.field("X-C")), (None, None, None));
}

#[test]
fn a_304_has_no_content_type() {
    let mut application = Application::start(1);
    let answer = application.run("header('ETag: \"1\"'); http_response_code(304);");
    assert_eq!((answer.status, answer.field("Content-Type")), (304, None));
    assert_eq!(answer.field("ETag"), Some("\"1\""));
}

#[test]
fn headers_sent_says_where() {
    let mut application = Application::start(1);
    let answer = application.run(
        "ob_end_clean(); echo (int) headers_sent(); flush(); echo (int) headers_sent($f, $l);
         @header('X-Late: 1');",
    );
    assert_eq!(answer.text(), "01");
    assert_eq!(answer.field("X-Late"), None);
}

#[test]
fn a_head_request_runs_the_script_and_sends_no_body() {
    let mut application = Application::start(1);
    let request = application
        .script("header('X-Ran: yes'); header('Content-Length: 5'); echo 'hello';")
        .method("HEAD");
    let answer = application.send(&request).wait(&mut application);
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!((answer.field("X-Ran"), answer.field("Content-Length")), (Some("yes"), Some("5")));
}

#[test]
fn a_redirect_is_302_whatever_the_method() {
    let mut application = Application::start(1);
    for method in ["GET", "POST", "PUT"] {
        let request = application.script("header('Location: /x');").method(method);
        assert_eq!(application.send(&request).wait(&mut application).status, 302);
    }
}

/// PHP-FPM's setting counts for errors that end a script, and for the next request no more.
#[test]
fn an_error_gets_the_status_line_of_the_setting() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin =
            [("fastcgi.error_header", "HTTP/1.1 503 PHP Error"), ("output_buffering", "4096")]
                .map(|(name, value)| (name.into(), value.into()))
                .into();
    });
    assert_eq!(application.run("throw new Exception();").status, 503);
    assert_eq!(application.run("echo 'served';").status, 200);
    assert_eq!(
        application.run("echo 'sent'; ob_flush(); flush(); throw new Exception();").status,
        200
    );
}

#[test]
fn interim_responses_leave_the_final_one_as_it_is() {
    let mut application = Application::start(1);
    let answer = application.run(
        "header_remove('X-Powered-By'); header('Link: </a.css>; rel=preload');
         $sent = headers_send(103); http_response_code(201); echo $sent;",
    );
    assert_eq!(answer.interim, [(103, vec!["Link: </a.css>; rel=preload".to_owned()])]);
    assert_eq!((answer.status, answer.text().as_str()), (201, "1"));
    assert!(answer.field("Link").is_some());
}

#[test]
fn headers_send_with_a_final_status_sends_it() {
    let mut application = Application::start(1);
    let answer = application.run("headers_send(202); header('X-Late: 1'); echo 'x';");
    assert_eq!((answer.status, answer.field("X-Late")), (202, None));
}

#[test]
fn more_header_fields_than_fit_are_a_logged_500() {
    let mut application = Application::start(1);
    let answer = application.run(
        "for ($i = 0; $i < 40; $i++) header(\"X-$i: \" . str_repeat('x', 1000)); echo 'body';",
    );
    assert_eq!((answer.status, answer.body.len()), (500, 0));
    assert!(answer.logged("bytes of header fields"), "{:?}", answer.log);
    assert_eq!(application.run("echo 1;").text(), "1");
}

fn get(application: &mut Application, path: &Path) -> Answer {
    let request = Request::get(path, application.root.path());
    application.send(&request).wait(application)
}

#[test]
fn a_script_that_does_not_exist_is_404() {
    let mut application = Application::start(1);
    let path = application.root.path().join("no.php");
    let answer = get(&mut application, &path);
    assert_eq!((answer.status, answer.text().as_str()), (404, "File not found.\n"));
    assert!(answer.logged("Primary script unknown"));
}

#[test]
fn only_files_named_php_are_run() {
    let mut application = Application::start(1);
    for name in
        ["a.jpg", "a.PHP", "a.php ", "a.phps", "a.php~", "a.php.", ".php", "aphp", "a.ph\u{ff50}"]
    {
        let path = application.file(name, "<?php echo 'ran';");
        let answer = get(&mut application, &path);
        let status = answer.status;
        assert!(status == 403 || name == ".php", "{name}: {status} {}", answer.text());
    }
}

#[test]
fn what_is_no_regular_file_is_404() {
    let mut application = Application::start(1);
    let root = application.root.path().to_owned();
    fs::create_dir(root.join("dir.php")).unwrap();
    let fifo = root.join("fifo.php");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let inner = application.file("a.php", "<?php echo 1;");
    for path in [root.join("dir.php"), fifo, root.join("dir.php/../a.php"), inner.join("x.php")] {
        assert_eq!(get(&mut application, &path).status, 404, "{}", path.display());
    }
    let relative = Path::new("a.php");
    assert_eq!(get(&mut application, relative).status, 404);
}

#[test]
fn a_script_outside_open_basedir_is_refused() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin = vec![("open_basedir".into(), "/usr/share/php".into())];
    });
    let answer = application.run("echo 'ran';");
    assert_eq!((answer.status, answer.text().as_str()), (403, "Access denied.\n"));
}

#[test]
fn a_script_that_cannot_be_read_is_403() {
    // Root can read everything.
    let root = rustix::process::geteuid().is_root();
    let mut application =
        Application::start_with(1, &|spec| spec.user = root.then(|| "nobody".to_owned()));
    let path = application.file("sub/secret.php", "<?php echo 1;");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(application.root.path(), 0o755);
    assert_eq!(get(&mut application, &path).text(), "1");
    mode(&path, 0o600);
    if !root {
        mode(&path, 0o000);
    }
    let answer = get(&mut application, &path);
    assert_eq!((answer.status, answer.text().as_str()), (403, "Access denied.\n"));
    mode(&path, 0o644);
    mode(path.parent().unwrap(), 0o000);
    assert_eq!(get(&mut application, &path).status, 403);
    mode(path.parent().unwrap(), 0o755);
}

#[test]
fn a_changed_script_is_seen() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin = vec![
            ("opcache.revalidate_freq".into(), "0".into()),
            ("opcache.file_update_protection".into(), "0".into()),
        ];
    });
    let path = application.file("a.php", "<?php echo 1;");
    assert_eq!(get(&mut application, &path).text(), "1");
    fs::write(&path, "<?php echo 'second';").unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    assert_eq!(get(&mut application, &path).text(), "second");
    fs::remove_file(&path).unwrap();
    assert_eq!(get(&mut application, &path).status, 404);
}
