//! Attackers that write to Valkey, or take its place.

use std::io::{Read, Write};

use harness::raw::{Connection, Raw};
use harness::valkey::Valkey;
use harness::{Server, eventually, processes};
use serde_json::{Value, json};

use super::servers::{ask, cached, connected, has, origin, server, status, store, two};

fn limited() -> Value {
    json!({"routes": [{"action": {"return": 200,
        "limit": {"rate": "1/h", "burst": 9, "zone": "z"}}}]})
}

#[test]
fn messages_that_are_no_purges_change_nothing() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let origin = origin();
    let servers = two(&valkey, &cached(&origin));
    store(&servers, &["/a"]);
    let long = vec![b'x'; 1 << 20];
    let huge = [b"HP\x01".as_slice(), &[7; 16], b"\0\x04\xff\xff\xff\xff"].concat();
    for message in [b"".as_slice(), b"\xff\0\r\n", b"HP", b"HP\x01", &huge, &long] {
        valkey.ask(&[b"XADD".as_slice(), b"howdah:purges", b"*", b"purge", message]);
    }
    valkey.ask(&["XADD", "howdah:purges", "*", "x", "y", "z", "0"]);
    for server in &servers {
        eventually("the messages are read", || {
            (status(server, "/invalid").as_u64() >= Some(7)).then_some(())
        });
        assert!(has(server, "/a"));
    }
    assert_eq!(ask(&servers[0], "PURGE", "/a", "").status, 200);
    super::servers::loses(&servers[1], "/a");
}

#[test]
fn keys_of_another_kind_break_nothing() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let servers = two(&valkey, &limited());
    assert_eq!(servers[0].get("/").status, 200);
    let key = valkey.ask(&["EVAL", "return redis.call('KEYS', 'howdah:limit:*')[1]", "0"]);
    assert!(key.starts_with("howdah:limit:z:"), "{key}");
    for value in ["9e99 0", "99999999999999999999999 5", "nan nan", "-1 -1", &"9".repeat(100_000)] {
        valkey.ask(&["SET", &key, value]);
        // The debt that the server itself knows remains: nine of ten, without an end that never
        // comes.
        assert_eq!(servers[0].get("/").status, 200, "{value}");
    }
    valkey.ask(&["DEL", &key]);
    valkey.ask(&["SADD", &key, "member"]);
    assert_eq!(servers[1].get("/").status, 200);
    valkey.ask(&["DEL", "howdah:purges"]);
    valkey.ask(&["SET", "howdah:purges", "text"]);
    eventually("the problem is logged", || (servers[0].log().contains("WRONGTYPE")).then_some(()));
    assert_eq!(servers[1].get("/").status, 200);
    valkey.ask(&["DEL", "howdah:purges"]);
    servers.iter().for_each(connected);
}

#[test]
fn a_wrong_password_is_not_logged_and_the_right_one_works() {
    let Some(valkey) = Valkey::start(&["--requirepass", "right-password"]) else { return };
    let address = valkey.address.to_string();
    let with = |password| json!({"server": address, "password": password});
    let wrong = server(&with("wrong-password"), limited());
    assert_eq!(wrong.get("/").status, 200);
    wrong.wait_for_log("it refuses the user or password");
    assert!(!wrong.log().contains("wrong-password"));
    let right = server(&with("right-password"), limited());
    connected(&right);
    assert_eq!(right.get("/").status, 200);
    assert_eq!(status(&right, "/requests/counted"), 1);
    // Valkey repeats the arguments of a command that it does not know.
    let Some(valkey) = Valkey::start(&["--rename-command", "AUTH", ""]) else { return };
    let cluster = json!({"server": valkey.address.to_string(), "password": "right-password"});
    let unknown = server(&cluster, limited());
    unknown.wait_for_log("cluster: the server");
    assert!(!unknown.log().contains("right-password"), "{}", unknown.log());
}

/// Checks that a server serves beside something in the place of Valkey, and how much memory it
/// takes.
fn survives(serve: impl Fn(&mut Connection) + Send + Sync + 'static) -> Server {
    let valkey = Raw::new(serve);
    let server = server(&json!(valkey.address.to_string()), limited());
    let before = processes::peak_memory(server.router());
    let mut client = server.connect();
    let statuses: Vec<_> = (0..12).map(|_| client.get("/").status).collect();
    assert_eq!(statuses, [[200; 10].as_slice(), &[429; 2]].concat());
    eventually("it has connected", || (valkey.connections() >= 2).then_some(()));
    server.wait_for_log("cluster: the server");
    let after = processes::peak_memory(server.router());
    assert!(after < before + (64 << 20), "{before} bytes, then {after}");
    server
}

#[test]
fn a_server_that_closes_is_tried_again() {
    survives(|_| {});
}

#[test]
fn a_server_that_says_nothing_is_left_alone() {
    survives(|connection| {
        let _ = connection.stream.read(&mut [0; 4096]);
        let _ = connection.stream.read_to_end(&mut Vec::new());
    });
}

#[test]
fn a_server_that_sends_without_an_end_is_cut_off() {
    for piece in [b"+".as_slice(), b"$999999999\r\n", b"*999999999\r\n", b":1\r\n", b"*1\r\n"] {
        let piece = piece.repeat(1000);
        survives(move |connection| {
            // Logged in without a password: the server speaks only when it is asked.
            let _ = connection.stream.read(&mut [0; 4096]);
            while connection.stream.write_all(&piece).is_ok() {}
        });
    }
}

#[test]
fn a_server_that_answers_nonsense_is_not_believed() {
    for answer in [
        "-ERR unknown\r\n",
        "*0\r\n",
        "$-1\r\n",
        "*1\r\n:99999999999999999\r\n",
        "*1\r\n:-1\r\n",
        "*-5\r\n",
        "%-1\r\n",
        "|9223372036854775807\r\n",
        "*9223372036854775807\r\n",
        "=-7\r\n",
        "$9223372036854775807\r\n",
        ">1\r\n$1\r\nx\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
    ] {
        survives(move |connection| {
            let mut buffer = [0; 16 << 10];
            while connection.stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                if connection.stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

/// Logs in, knows the scripts, and then answers with impossible values.
#[test]
fn impossible_answers_to_a_request_are_ignored() {
    for answer in
        [":0\r\n", "*1\r\n:-1\r\n", "*1\r\n:9000000000000000000\r\n", "*2\r\n:0\r\n:0\r\n"]
    {
        let hash = format!("$40\r\n{}\r\n", "a".repeat(40));
        let valkey = Raw::new(move |connection| {
            let mut buffer = [0; 16 << 10];
            while let Ok(length) = connection.stream.read(&mut buffer)
                && length > 0
            {
                let command = String::from_utf8_lossy(&buffer[..length]).into_owned();
                let reply = match command {
                    command if command.contains("SCRIPT") => hash.as_str(),
                    command if command.contains("EVALSHA") => answer,
                    command if command.contains("XLEN") => ":0\r\n",
                    command if command.contains("XREAD") => {
                        std::thread::sleep(std::time::Duration::from_millis(500));
                        "*-1\r\n"
                    }
                    _ => "+PONG\r\n",
                };
                if connection.stream.write_all(reply.as_bytes()).is_err() {
                    return;
                }
            }
        });
        let server = server(&json!(valkey.address.to_string()), limited());
        connected(&server);
        let mut client = server.connect();
        let statuses: Vec<_> = (0..11).map(|_| client.get("/").status).collect();
        assert_eq!(statuses, [[200; 10].as_slice(), &[429]].concat(), "{answer:?}");
    }
}
