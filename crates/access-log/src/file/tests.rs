use std::fs;

use super::*;

fn quiet() -> Log {
    Log::new(fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into())
}

fn open(path: &std::path::Path) -> OwnedFd {
    fs::OpenOptions::new().append(true).create(true).open(path).unwrap().into()
}

#[test]
fn lines_go_on_in_the_file_that_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("log"), dir.path().join("old"));
    let file = LogFile::new(&Destination::File("log".into()), Some(open(&path)));
    file.append(b"a\n", &quiet());
    fs::rename(&path, &old).unwrap();
    file.append(b"b\n", &quiet());
    file.reopen(open(&path));
    file.append(b"c\n", &quiet());
    assert_eq!(fs::read(old).unwrap(), b"a\nb\n");
    assert_eq!(fs::read(path).unwrap(), b"c\n");
}

#[test]
fn lines_wait_while_the_disk_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let file = LogFile::new(&Destination::File("/dev/full".into()), Some(full.into()));
    let report = dir.path().join("report");
    let log = Log::new(open(&report));
    file.append(b"a\n", &log);
    file.append(b"b\nc\n", &log);
    let problem = file.problem().unwrap();
    assert!(problem.starts_with("it cannot be written: No space left on device"), "{problem}");
    assert!(problem.ends_with("; make room there: df -h"), "{problem}");
    assert!(file.claim_retry() && !file.claim_retry());
    assert_eq!(file.retry(&log), Sent::Nothing);
    assert!(file.problem().is_some());
    let path = dir.path().join("log");
    file.reopen(open(&path));
    assert_eq!((file.retry(&log), file.problem()), (Sent::All, None));
    file.append(b"d\n", &log);
    assert_eq!(fs::read(path).unwrap(), b"a\nb\nc\nd\n");
    assert_eq!(fs::read_to_string(report).unwrap(), "", "nothing is lost");
}

#[test]
fn each_line_is_a_datagram_and_a_server_that_is_gone_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
    client.connect(&path).unwrap();
    client.set_nonblocking(true).unwrap();
    let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
    let file = LogFile::new(&Destination::Journal(journal), Some(client.into()));
    file.append(b"one\ntwo\n", &quiet());
    let mut buffer = [0; 100];
    for line in ["one", "two"] {
        let length = server.recv(&mut buffer).unwrap();
        let expected = format!("PRIORITY=6\nSYSLOG_IDENTIFIER=test\nMESSAGE={line}\n");
        assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap(), expected);
    }
    assert!(!file.take_disconnected());
    drop(server);
    file.append(b"lost\n", &quiet());
    assert!(file.take_disconnected());
    assert!(!file.take_disconnected());
}

/// The socket of a daemon holds few datagrams, and the daemon is slow.
#[test]
fn lines_that_a_server_does_not_take_yet_are_sent_later_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let bind = || {
        let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        client.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        (server, OwnedFd::from(client))
    };
    let (server, client) = bind();
    let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
    let file = LogFile::new(&Destination::Journal(journal), Some(client));
    let lines: String = (0..2000).map(|number| format!("{number}\n")).collect();
    file.append(lines.as_bytes(), &quiet());
    file.append(b"last\n", &quiet());
    assert!(file.claim_retry() && !file.claim_retry(), "one thread sends them");
    let mut received = Vec::new();
    let mut receive = |server: &std::os::unix::net::UnixDatagram| {
        let mut buffer = [0; 100];
        while let Ok(length) = server.recv(&mut buffer) {
            let text = std::str::from_utf8(&buffer[..length]).unwrap();
            received.push(text.split("MESSAGE=").nth(1).unwrap().trim_end().to_owned());
        }
    };
    receive(&server);
    assert_eq!(file.retry(&quiet()), Sent::Some);
    // The daemon ends without having read everything, and another one begins.
    receive(&server);
    drop(server);
    assert_eq!(file.retry(&quiet()), Sent::Nothing);
    assert!(file.take_disconnected());
    std::fs::remove_file(&path).unwrap();
    let (server, client) = bind();
    file.reopen(client);
    while file.retry(&quiet()) != Sent::All {
        receive(&server);
    }
    receive(&server);
    let numbers = (0..2000).map(|number| number.to_string());
    assert_eq!(received, numbers.chain(["last".to_owned()]).collect::<Vec<_>>());
    assert!(!file.claim_retry());
}

#[test]
fn a_closed_port_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(port).unwrap();
    client.set_nonblocking(true).unwrap();
    let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
    let file = LogFile::new(&Destination::Journal(journal), Some(client.into()));
    let report = dir.path().join("report");
    let log = Log::new(open(&report));
    (0..9).for_each(|_| file.append(b"line\n", &log));
    let text = fs::read_to_string(&report).unwrap();
    assert_eq!(text.matches("no server has the port").count(), 1, "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_server_that_cannot_be_reached_is_reported_until_it_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let (path, report) = (dir.path().join("socket"), dir.path().join("report"));
    let log = Log::new(open(&report));
    let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
    let file = LogFile::new(&Destination::Journal(journal), None);
    file.append(b"first\n", &log);
    assert!(file.take_disconnected());
    file.set_disconnected(&"reported by the caller", &log);
    let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
    client.connect(&path).unwrap();
    file.reopen(client.into());
    assert_eq!(file.retry(&log), Sent::All);
    let mut buffer = [0; 100];
    let length = server.recv(&mut buffer).unwrap();
    assert!(buffer[..length].ends_with(b"MESSAGE=first\n"));
    drop(server);
    (0..2).for_each(|_| file.append(b"waits\n", &log));
    file.set_disconnected(&"No such file", &log);
    let text = fs::read_to_string(&report).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("takes lines again") && lines.len() == 2, "{text}");
    assert!(lines[1].contains("; lines wait until it can be reached"), "{text}");
}

/// A reader that is stopped, as the log driver of a container may be, stopped the whole server.
#[test]
fn nobody_waits_for_the_reader_of_a_pipe_or_stream() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let long = "x".repeat(10_000);
    let text: String =
        (0..20_000).map(|number| format!("{number}\n")).collect::<String>() + &long + "\nlast\n";
    for (reader, writer) in [(reader, writer), (far.into(), near.into())] {
        rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
        let file = LogFile::new(&Destination::File("/dev/stdout".into()), Some(writer));
        (0..5).for_each(|_| file.append(text.as_bytes(), &quiet()));
        assert!(file.claim_retry());
        let (mut received, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
        loop {
            let sent = file.retry(&quiet());
            while let Ok(length @ 1..) = rustix::io::read(&reader, &mut buffer) {
                received.extend_from_slice(&buffer[..length]);
            }
            if sent == Sent::All {
                break;
            }
        }
        assert_eq!(received.len(), 5 * text.len());
        assert!(received == text.repeat(5).as_bytes());
        drop(reader);
        (0..3).for_each(|_| file.append(b"nobody\n", &quiet()));
        assert!(!file.claim_retry(), "nothing waits for a reader that has gone");
    }
}

#[test]
fn the_rest_of_a_line_goes_on_before_the_next() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    // Written as a disk that is full takes a part.
    let file = LogFile::new(&Destination::File("pipe".into()), None);
    *file.file.write().unwrap() = Some(Output { file: writer, channel: Channel::File });
    file.append(&[&[b'x'; 4999][..], b"\n"].concat(), &quiet());
    let mut buffer = vec![0; 8192];
    assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 4096);
    file.append(b"next\n", &quiet());
    assert_eq!(file.retry(&quiet()), Sent::All);
    let read = rustix::io::read(&reader, &mut buffer).unwrap();
    assert_eq!(&buffer[..read], [&[b'x'; 903][..], b"\nnext\n"].concat());
}
