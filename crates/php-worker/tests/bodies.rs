//! Request bodies: in the slot, in a file, as forms, as uploads.

mod harness;

use std::os::fd::OwnedFd;

use harness::{Application, Request};

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn a_form_in_the_slot_is_parsed() {
    let mut application = Application::start(1);
    let request = application
        .script("echo json_encode($_POST), file_get_contents('php://input');")
        .post(FORM, "a=1&b[x]=%20y");
    let answer = application.send(&request).wait(&mut application);
    assert_eq!(answer.text(), r#"{"a":"1","b":{"x":" y"}}a=1&b[x]=%20y"#);
}

#[test]
fn a_body_in_a_file_is_read_from_its_start() {
    let mut application = Application::start(1);
    let body: Vec<u8> = (0..2 << 20).map(|n: u32| (n * 31 % 251) as u8).collect();
    let request = application
        .script("$in = file_get_contents('php://input'); echo strlen($in), ' ', md5($in);")
        .post("application/octet-stream", body.clone())
        .body_in_file();
    let answer = application.send(&request).wait(&mut application);
    let inline = application
        .script("echo strlen($GLOBALS['x'] = file_get_contents('php://input')), ' ', md5($x);")
        .post("application/octet-stream", &body[..20_000]);
    assert_eq!(
        application.send(&inline).wait(&mut application).text().split(' ').next(),
        Some("20000")
    );
    assert_eq!(answer.text(), format!("{} {}", body.len(), md5_of(&mut application, &body)));
}

/// Returns the digest that PHP itself computes from a file on disk.
fn md5_of(application: &mut Application, body: &[u8]) -> String {
    let path = application.root.path().join("body.bin");
    std::fs::write(&path, body).unwrap();
    application.run(&format!("echo md5_file('{}');", path.display())).text()
}

#[test]
fn a_form_in_a_file_is_parsed() {
    let mut application = Application::start(1);
    let request = application.script("echo $_POST['z'];").post(FORM, "y=1&z=2").body_in_file();
    assert_eq!(application.send(&request).wait(&mut application).text(), "2");
}

#[test]
fn parameters_in_a_file_are_the_same_parameters() {
    let mut application = Application::start(1);
    let long = "x".repeat(200_000);
    let mut request = application
        .script("echo strlen($_GET['q']), $_POST['a'], $_SERVER['REMOTE_ADDR'];")
        .with("QUERY_STRING", format!("q={long}"))
        .post(FORM, "a=7");
    request.params_in_file = true;
    assert_eq!(application.send(&request).wait(&mut application).text(), "2000007127.0.0.1");
    let both = request.body_in_file();
    assert_eq!(application.send(&both).wait(&mut application).text(), "2000007127.0.0.1");
}

#[test]
fn other_methods_have_bodies_too() {
    let mut application = Application::start(1);
    for method in ["PUT", "PATCH", "DELETE"] {
        let request = application
            .script(
                "echo $_SERVER['REQUEST_METHOD'], file_get_contents('php://input'), count($_POST);",
            )
            .post("application/json", "{\"a\":1}")
            .method(method);
        let answer = application.send(&request).wait(&mut application);
        assert_eq!(answer.text(), format!("{method}{{\"a\":1}}0"));
    }
}

#[test]
fn a_body_that_is_not_read_is_not_part_of_the_next_request() {
    let mut application = Application::start(1);
    let request =
        application.script("echo 'unread';").post("text/plain", "left over").body_in_file();
    assert_eq!(application.send(&request).wait(&mut application).text(), "unread");
    assert_eq!(application.run("echo strlen(file_get_contents('php://input'));").text(), "0");
}

#[test]
fn a_large_body_is_streamed_at_constant_memory() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin = vec![("post_max_size".into(), "0".into())];
    });
    let len = 300 << 20;
    let file = tempfile::tempfile().unwrap();
    file.set_len(len).unwrap();
    let mut request = application
        .script(
            "$in = fopen('php://input', 'rb'); $n = 0;
             while (($part = fread($in, 1 << 20)) !== '' && $part !== false) $n += strlen($part);
             echo $n;",
        )
        .method("PUT")
        .with("CONTENT_LENGTH", len.to_string());
    request.body_file = Some((OwnedFd::from(file), len));
    let answer = application.send(&request).wait(&mut application);
    assert_eq!(answer.text(), len.to_string());
    let peak = answer.done.unwrap().peak_memory;
    assert!(peak < 16 << 20, "{peak} bytes");
}

fn upload(boundary: &str, name: &str, content: &[u8]) -> Vec<u8> {
    let mut body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"{name}\"\r\n\
         Content-Type: text/plain\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(content);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body
}

const MULTIPART: &str = "multipart/form-data; boundary=B";

fn uploading(application: &Application, code: &str) -> Request {
    application.script(code).post(MULTIPART, upload("B", "a.txt", &[b'x'; 100_000])).body_in_file()
}

#[test]
fn an_uploaded_file_is_there_and_gone_afterwards() {
    let mut application = Application::start(1);
    let code = "echo $_FILES['f']['size'], is_uploaded_file($_FILES['f']['tmp_name']), ' ',
                $_FILES['f']['tmp_name'];";
    let request = uploading(&application, code);
    let text = application.send(&request).wait(&mut application).text();
    let (facts, path) = text.split_once(' ').unwrap();
    assert_eq!(facts, "1000001");
    assert!(path.starts_with('/') && !std::path::Path::new(path).exists(), "{path}");
}

#[test]
fn an_uploaded_file_is_gone_when_the_script_dies() {
    let mut application = Application::start(1);
    for end in ["exit(1);", "no_such_function();", "str_repeat('x', 1 << 40);"] {
        let request = uploading(
            &application,
            &format!("echo $_FILES['f']['tmp_name']; ob_flush(); flush(); {end}"),
        );
        let path = application.send(&request).wait(&mut application).text();
        assert!(path.starts_with('/') && !std::path::Path::new(&path).exists(), "{path}");
    }
}

#[test]
fn a_hundred_thousand_parts_are_bounded() {
    let mut application = Application::start(1);
    let mut body = Vec::new();
    for n in 0..100_000 {
        body.extend_from_slice(
            format!("--B\r\nContent-Disposition: form-data; name=\"n{n}\"\r\n\r\nv\r\n").as_bytes(),
        );
    }
    body.extend_from_slice(b"--B--\r\n");
    let request = application.script("echo count($_POST);").post(MULTIPART, body).body_in_file();
    let answer = application.send(&request).wait(&mut application);
    let count: usize = answer.text().rsplit('\n').next().unwrap().parse().unwrap_or(usize::MAX);
    assert!(count <= 1000, "max_input_vars holds: {}", answer.text());
    assert!(answer.done.unwrap().cpu_us < 5_000_000);
    assert_eq!(application.run("echo 'alive';").text(), "alive");
}

#[test]
fn colliding_names_cost_no_time() {
    let mut application = Application::start(1);
    // Keys that collide in a hash table of 65,536 buckets.
    let body: String = (0..60_000u64).map(|n| format!("a[{}]=&", n << 16)).collect();
    let request =
        application.script("echo count($_POST['a'] ?? []);").post(FORM, body).body_in_file();
    let answer = application.send(&request).wait(&mut application);
    assert!(
        answer.text().ends_with("1000") || answer.text().ends_with("1001"),
        "{}",
        answer.text()
    );
    assert!(answer.done.unwrap().cpu_us < 2_000_000);
}

#[test]
fn a_body_over_post_max_size_is_not_parsed() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin =
            vec![("post_max_size".into(), "1K".into()), ("display_errors".into(), "0".into())];
    });
    let request =
        application.script("echo count($_POST);").post(FORM, "a=".to_owned() + &"x".repeat(5000));
    let answer = application.send(&request).wait(&mut application);
    assert_eq!(answer.text(), "0");
    assert!(answer.logged("exceeds the limit"), "{:?}", answer.log);
}
