//! Helpers for both ends of the proxy, byte for byte and step by step.

use tokio::io::{AsyncBufReadExt, BufReader};

use super::*;

/// Creates a listening socket, and a proxy in front of it.
pub async fn listening(timeouts: Timeouts) -> (TcpListener, Proxy) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Inet(listener.local_addr().unwrap());
    (listener, Proxy::new(single(&address), timeouts).await)
}

/// Reads a head, byte for byte.
pub async fn head(stream: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = timeout(TEST_TIMEOUT, stream.read_line(&mut head)).await.expect("a head comes");
        assert_ne!(read.unwrap(), 0, "the connection ends within a head: {head}");
    }
    head
}

/// Reads exactly these bytes.
pub async fn exactly(stream: &mut BufReader<TcpStream>, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    let read = timeout(TEST_TIMEOUT, stream.read_exact(&mut bytes)).await.expect("bytes come");
    read.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

/// Reads a line with its end.
async fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    let read = timeout(TEST_TIMEOUT, stream.read_line(&mut line)).await.expect("a line comes");
    assert_ne!(read.unwrap(), 0, "the connection ends before a line");
    line
}

/// Reads a chunked body, and the lines after it.
pub async fn chunks(stream: &mut BufReader<TcpStream>) -> (String, String) {
    let (mut body, mut trailer) = (String::new(), String::new());
    loop {
        let size = usize::from_str_radix(line(stream).await.trim_end(), 16).unwrap();
        if size == 0 {
            break;
        }
        let mut chunk = vec![0; size];
        let read =
            timeout(TEST_TIMEOUT, stream.read_exact(&mut chunk)).await.expect("a chunk comes");
        read.unwrap();
        body.push_str(std::str::from_utf8(&chunk).unwrap());
        exactly(stream, "\r\n").await;
    }
    loop {
        match line(stream).await.as_str() {
            "\r\n" => return (body, trailer),
            field => trailer.push_str(field),
        }
    }
}

/// Checks that the connection has ended.
pub async fn end(stream: &mut BufReader<TcpStream>) {
    let read = timeout(TEST_TIMEOUT, stream.read_u8()).await.expect("the connection ends");
    assert!(read.is_err(), "{read:?}");
}

/// Connects a client that sends these bytes.
pub async fn client(proxy: &Proxy, bytes: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    BufReader::new(stream)
}

/// Accepts the connection of the proxy.
pub async fn server(listener: &TcpListener) -> BufReader<TcpStream> {
    let accepted = timeout(TEST_TIMEOUT, listener.accept()).await.expect("the proxy connects");
    BufReader::new(accepted.unwrap().0)
}
