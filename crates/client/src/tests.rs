//! The commands against a server that applies requests to a document.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex};

use howdah_control::{Command as Asked, Done, Next, Refusal, Reply, Store, translate};
use howdah_questions::Question;
use serde_json::json;

use super::args::{ReloadArgs, Server, StatusArgs};
use super::*;

/// A machine without sites.
struct NoMachine;

impl Machine for NoMachine {
    fn files(
        &self,
        _is_for_another_machine: bool,
    ) -> Result<Box<dyn howdah_config::include::IncludedFiles>, String> {
        Err("there is no disk".to_owned())
    }

    fn server_user(&self) -> Option<howdah_sys::credentials::Credentials> {
        None
    }

    fn check(&self, _document: &Value, _file: &Path) -> Vec<Problem> {
        Vec::new()
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    super::execute(command, &NoMachine)
}

/// A server on a unix socket in a new directory.
struct TestServer {
    dir: tempfile::TempDir,
    store: Arc<Mutex<Store>>,
}

impl TestServer {
    fn start(document: Value) -> TestServer {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("control.sock")).unwrap();
        let store = Arc::new(Mutex::new(Store::new(document)));
        let server = TestServer { dir, store: Arc::clone(&store) };
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                answer(connection.unwrap(), &store);
            }
        });
        server
    }

    fn control(&self) -> Server {
        let control = format!("unix:{}/control.sock", self.dir.path().display());
        Server { control: Some(control), control_token_file: None }
    }

    fn config(&self, command: ConfigCommand) -> Result<(), Failure> {
        execute(Command::Config(ConfigArgs { server: self.control(), command }))
    }

    /// Returns the texts of edits that were not sent.
    fn kept(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap().flatten();
        let kept = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".json"));
        kept.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect()
    }

    fn document(&self) -> Value {
        self.store.lock().unwrap().document().clone()
    }

    /// Edits with a shell script in place of an editor; its `$1` is the file.
    fn edit(&self, path: &str, script: &str) -> Result<(), Failure> {
        let file = self.dir.path().join("editor");
        std::fs::write(&file, script).unwrap();
        let client = connect(&self.control()).unwrap();
        let editor = format!("sh {}", file.display());
        edit::edit(&client, &config_target(Some(path)), &editor, self.dir.path())
    }
}

fn answer(mut connection: UnixStream, store: &Mutex<Store>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    let (head, body) = loop {
        let length = connection.read(&mut buffer).unwrap();
        request.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length: usize = head.rsplit_once("Content-Length: ").unwrap().1.parse().unwrap();
        if body.len() == length {
            break (head.to_owned(), body.to_owned());
        }
    };
    let mut line = head.split([' ', '\r']);
    let (method, target) = (line.next().unwrap(), line.next().unwrap());
    let mut store = store.lock().unwrap();
    let reply = translate(method.as_bytes(), target.as_bytes(), body.as_bytes())
        .and_then(|command| match command {
            Asked::Change(change) => {
                let Next::Apply(prepared) = store.prepare(change)? else {
                    panic!("no sites are sent")
                };
                *store = prepared.store;
                Ok(Done::Reconfigured.into())
            }
            Asked::GetConfig(path) => Ok(store.get(&path)),
            Asked::GetCompiled => Ok(Reply::value(store.document().clone())),
            Asked::Ask { question: Question::Status, part } => {
                let status = serde_json::to_vec(&Status::default()).unwrap();
                Reply::part(&status, &part).unwrap().ok_or(Refusal::NoSuchPath)
            }
            Asked::Reload { .. } => Ok(Done::Reloaded.into()),
            Asked::Ask { question: Question::Restart { application: name }, .. } => {
                if store.has_application(&name) {
                    Ok(Done::Restarted.into())
                } else {
                    Err(Refusal::NoSuchApplication { name })
                }
            }
            _ => Err(Refusal::NoSuchValue),
        })
        .unwrap_or_else(Reply::from);
    let (status, text) = (reply.status(), reply.into_text());
    let length = text.len();
    write!(connection, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{text}").unwrap();
}

fn failure(result: Result<(), Failure>) -> String {
    match result {
        Err(Failure::Failed(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn paths_are_taken_with_and_without_their_beginning() {
    for same in ["routes/0", "/routes/0", "/config/routes/0/", "config/routes/0"] {
        assert_eq!(config_target(Some(same)), "/config/routes/0");
    }
    for whole in [None, Some(""), Some("/"), Some("/config"), Some("config/")] {
        assert_eq!(config_target(whole), "/config");
    }
    assert_eq!(config_target(Some("configs")), "/config/configs");
    assert_eq!(config_target(Some("listeners/*:80")), "/config/listeners/*:80");
    assert_eq!(config_target(Some("a%2Fb/c d/ü?#")), "/config/a%2Fb/c%20d/%C3%BC%3F%23");
}

#[test]
fn the_configuration_is_set_appended_to_and_deleted() {
    let server = TestServer::start(json!({"routes": []}));
    let step = r#"{"action": {"return": 200}}"#;
    let value = |value: &str| Some(value.to_owned());
    let (path, append) = ("routes".to_owned(), value(step));
    server.config(ConfigCommand::Append { path, value: append }).unwrap();
    let (path, set) = ("routes/0/action/return".to_owned(), value("404"));
    server.config(ConfigCommand::Set { path, value: set }).unwrap();
    assert_eq!(server.document(), json!({"routes": [{"action": {"return": 404}}]}));
    server.config(ConfigCommand::Get { path: value("routes") }).unwrap();
    server.config(ConfigCommand::Delete { path: "routes/0".into() }).unwrap();
    assert_eq!(server.document(), json!({"routes": []}));
    let missing = server.config(ConfigCommand::Delete { path: "routes/0".into() });
    assert_eq!(failure(missing), "there is nothing at /config/routes/0");
    let (path, bad) = ("routes".to_owned(), value("[{\"action\": {}}]"));
    let bad = failure(server.config(ConfigCommand::Set { path, value: bad }));
    assert!(bad.starts_with("Invalid configuration: /routes/0/action: "), "{bad}");
}

#[test]
fn applications_are_restarted_and_the_status_is_shown() {
    let server = TestServer::start(json!({"applications": {"a/b": {"type": "php", "root": "/"}}}));
    let restart = |name: &str| {
        let applications = vec![name.to_owned()];
        execute(Command::Restart(RestartArgs {
            server: server.control(),
            applications,
            all: false,
        }))
    };
    restart("a/b").unwrap();
    let missing = "the configuration has no application \"shop\"";
    assert_eq!(failure(restart("shop")), missing);
    execute(Command::Status(StatusArgs {
        server: server.control(),
        application: None,
        problems: false,
        json: false,
    }))
    .unwrap();
    execute(Command::Reload(ReloadArgs {
        server: server.control(),
        restart: false,
        tolerant: false,
    }))
    .unwrap();
}

#[test]
fn a_server_that_is_not_there_is_a_failure_of_its_own() {
    let control = "unix:/nonexistent/control.sock".to_owned();
    let server = Server { control: Some(control), control_token_file: None };
    let result = execute(Command::Reload(ReloadArgs { server, restart: false, tolerant: false }));
    assert!(matches!(result, Err(Failure::Unreachable(_))), "{result:?}");
}

#[test]
fn what_was_edited_is_sent_and_its_file_removed() {
    let server = TestServer::start(json!({"routes": [{"action": {"return": 200}}]}));
    let sed = "test \"$(stat -c %a \"$1\")\" = 600 && sed -i s/200/404/ \"$1\"";
    server.edit("routes", sed).unwrap();
    assert_eq!(server.document(), json!({"routes": [{"action": {"return": 404}}]}));
    server.edit("routes", "true").unwrap();
    server.edit("/", "echo '{}' > \"$1\"").unwrap();
    assert_eq!(server.document(), json!({}));
    assert_eq!(server.kept(), [""; 0]);
}

#[test]
fn what_was_edited_is_checked_before_it_is_sent() {
    let document = json!({"routes": [{"action": {"return": 200}}]});
    let server = TestServer::start(document.clone());
    let bad = failure(server.edit("routes/0", "sed -i s/return/retrun/ \"$1\""));
    assert!(bad.starts_with("/routes/0/action: "), "{bad}");
    let bad = failure(server.edit("/", "echo '{' > \"$1\""));
    assert!(bad.starts_with("line 2, column 1: "), "{bad}");
    assert!(failure(server.edit("/", "exit 3")).contains("nothing was changed"));
    assert_eq!(server.document(), document);
    assert_eq!(server.kept().len(), 2, "where the editor failed, nothing was written");
    assert!(server.kept().iter().any(|text| text.contains("retrun")));
}

#[test]
fn an_edit_does_not_undo_a_change_made_meanwhile() {
    let server = TestServer::start(json!({"routes": [{"action": {"return": 200}}]}));
    let go = server.dir.path().join("go");
    let script =
        format!("sed -i s/200/404/ \"$1\"; touch {0}; while test -e {0}; do :; done", go.display());
    let other = std::thread::scope(|scope| {
        let editing = scope.spawn(|| server.edit("routes", &script));
        wait_for(&go);
        let (path, value) = ("routes/0/action/return".to_owned(), Some("500".to_owned()));
        server.config(ConfigCommand::Set { path, value }).unwrap();
        std::fs::remove_file(&go).unwrap();
        editing.join().unwrap()
    });
    assert!(failure(other).starts_with("another client has changed"));
    assert_eq!(server.document(), json!({"routes": [{"action": {"return": 500}}]}));
    assert!(server.kept().concat().contains("404"));
}

fn wait_for(file: &FilePath) {
    while !file.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
