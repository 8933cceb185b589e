//! The first message of a TLS client, which names the server that it asks for (RFC 8446, 4.1.2), as
//! far as steps need it.
//!
//! The message may be cut into records (RFC 8446, 5.1), and both into segments, in any way. No byte
//! is changed, and no byte after the message is looked at.

/// Maximum length in bytes of the records up to the end of the hello.
pub const MAX_HELLO_BYTES: usize = 16 * 1024;

/// Type of a record of the handshake.
const HANDSHAKE: u8 = 22;

/// Type of a hello of a client.
const CLIENT_HELLO: u8 = 1;

/// Maximum length of the fragment of a record, in bytes (RFC 8446, 5.1).
const MAX_FRAGMENT_BYTES: usize = 1 << 14;

const SERVER_NAME: u16 = 0;
const PROTOCOLS: u16 = 16;

/// Facts of a hello.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The name that the client asks for (SNI), in lower case and without a dot at its end; empty
    /// without one.
    pub server_name: Vec<u8>,
    /// The protocols that it offers (ALPN).
    pub protocols: Vec<Vec<u8>>,
}

/// Error: the connection does not begin with a hello of at most [`MAX_HELLO_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotTls;

impl ClientHello {
    /// Decodes the hello at the start of a connection; `None` if more bytes are needed.
    pub fn read(input: &[u8]) -> Result<Option<ClientHello>, NotTls> {
        // First only lengths: the bytes may come one by one.
        let (mut rest, mut came, mut length) = (input, 0, None);
        let mut fragments = Vec::new();
        while length.is_none_or(|length| came < length) {
            let Some(fragment) = next_fragment(&mut rest)? else {
                let is_full = input.len() >= MAX_HELLO_BYTES;
                return if is_full { Err(NotTls) } else { Ok(None) };
            };
            fragments.push(fragment);
            came += fragment.len();
            if length.is_none() {
                length = message_length(&fragments)?;
            }
        }
        let message = fragments.concat();
        let length = length.unwrap_or_default();
        parse(message.get(4..length).ok_or(NotTls)?).map(Some)
    }
}

/// Takes the part of the next record that has arrived; `None` if none of it has.
fn next_fragment<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, NotTls> {
    // A mistake is known as early as possible: those who do not speak TLS may wait for an answer.
    if rest.first().is_some_and(|kind| *kind != HANDSHAKE)
        || rest.get(1).is_some_and(|major| *major != 3)
    {
        return Err(NotTls);
    }
    let Some((head, more)) = rest.split_at_checked(5) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
    if length == 0 || length > MAX_FRAGMENT_BYTES {
        return Err(NotTls);
    }
    if more.is_empty() {
        return Ok(None);
    }
    let (fragment, after) = more.split_at(length.min(more.len()));
    *rest = after;
    Ok(Some(fragment))
}

/// Returns the length of the message with its head, once that has arrived.
fn message_length(fragments: &[&[u8]]) -> Result<Option<usize>, NotTls> {
    let head: Vec<u8> = fragments.iter().flat_map(|one| one.iter()).take(4).copied().collect();
    if head.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(NotTls);
    }
    let [_, high, middle, low] = head.as_slice() else { return Ok(None) };
    let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
    if length + 4 > MAX_HELLO_BYTES { Err(NotTls) } else { Ok(Some(length + 4)) }
}

/// Takes a vector whose length stands in front of it in `bytes` bytes.
fn vector<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], NotTls> {
    let (length, more) = rest.split_at_checked(bytes).ok_or(NotTls)?;
    let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (found, after) = more.split_at_checked(length).ok_or(NotTls)?;
    *rest = after;
    Ok(found)
}

fn number(rest: &mut &[u8]) -> Result<u16, NotTls> {
    let (two, after) = rest.split_at_checked(2).ok_or(NotTls)?;
    *rest = after;
    Ok(u16::from_be_bytes([two[0], two[1]]))
}

/// Decodes the body of the message.
fn parse(body: &[u8]) -> Result<ClientHello, NotTls> {
    // The version and the random number have 34 bytes.
    let mut rest = body.get(34..).ok_or(NotTls)?;
    vector(&mut rest, 1)?; // session
    vector(&mut rest, 2)?; // cipher suites
    vector(&mut rest, 1)?; // compression
    let mut hello = ClientHello::default();
    if rest.is_empty() {
        return Ok(hello);
    }
    let mut extensions = vector(&mut rest, 2)?;
    while !extensions.is_empty() {
        let kind = number(&mut extensions)?;
        let mut content = vector(&mut extensions, 2)?;
        match kind {
            SERVER_NAME => {
                let mut names = vector(&mut content, 2)?;
                while let Some((kind, more)) = names.split_first() {
                    names = more;
                    let name = vector(&mut names, 2)?;
                    if *kind == 0 {
                        hello.server_name = host(name)?;
                    }
                }
            }
            PROTOCOLS => {
                let mut names = vector(&mut content, 2)?;
                while !names.is_empty() {
                    hello.protocols.push(vector(&mut names, 1)?.to_vec());
                }
            }
            _ => {}
        }
    }
    Ok(hello)
}

/// Returns a name in the form that patterns are compared with.
fn host(name: &[u8]) -> Result<Vec<u8>, NotTls> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if name.is_empty() || name.len() > 255 || !name.iter().all(is_known) {
        return Err(NotTls);
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_length(bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        [&length[length.len() - bytes..], content].concat()
    }

    /// Makes the message of a hello with this name and these protocols.
    fn message(name: &[u8], protocols: &[&[u8]]) -> Vec<u8> {
        let mut extensions = Vec::new();
        let mut add = |kind: u16, content: Vec<u8>| {
            extensions.extend(kind.to_be_bytes());
            extensions.extend(with_length(2, &content));
        };
        add(43, vec![2, 3, 4]);
        add(0, with_length(2, &[&[0][..], &with_length(2, name)].concat()));
        // As large as the key share of a hybrid of today.
        add(51, vec![7; 1216]);
        let listed: Vec<u8> = protocols.iter().flat_map(|one| with_length(1, one)).collect();
        add(16, with_length(2, &listed));
        let body = [
            &[3, 3][..],
            &[9; 32],
            &with_length(1, &[5; 32]),
            &with_length(2, &[0x13, 1, 0x13, 2]),
            &with_length(1, &[0]),
            &with_length(2, &extensions),
        ]
        .concat();
        [&[1][..], &with_length(3, &body)].concat()
    }

    /// Cuts a message into records of this length.
    fn records(message: &[u8], length: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[22, 3, 1][..], &with_length(2, part)].concat();
        message.chunks(length).flat_map(record).collect()
    }

    #[test]
    fn the_name_and_the_protocols_are_found_however_the_hello_is_cut() {
        let message = message(b"A.Example.org.", &[b"h2", b"http/1.1"]);
        let expected = ClientHello {
            server_name: b"a.example.org".to_vec(),
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        for length in [1, 3, 4, 5, 100, 16_384] {
            let bytes = records(&message, length);
            let last = bytes.len() - 1;
            for count in 0..=last {
                assert_eq!(ClientHello::read(&bytes[..count]), Ok(None), "{length} {count}");
            }
            assert_eq!(ClientHello::read(&bytes), Ok(Some(expected.clone())));
            let more = [&bytes[..], b"whatever follows"].concat();
            assert_eq!(ClientHello::read(&more), Ok(Some(expected.clone())));
        }
    }

    #[test]
    fn what_is_no_hello_is_known_at_once() {
        for bytes in [
            &b"G"[..],
            b"SSH-2.0-OpenSSH",
            b"EHLO a\r\n",
            &[22, 2],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0x40, 1],
            &[22, 3, 1, 0, 4, 2],
            // More than the limit, by its own words.
            &[22, 3, 1, 0, 4, 1, 0, 0x40, 0],
            &[21, 3, 1, 0, 2, 1, 0],
        ] {
            assert_eq!(ClientHello::read(bytes), Err(NotTls), "{bytes:?}");
        }
        // Many short records, whose heads take all of the room.
        let long = records(&message(b"a", &[&[b'p'; 200][..]; 30]), 1);
        assert!(long.len() > MAX_HELLO_BYTES);
        assert_eq!(ClientHello::read(&long[..MAX_HELLO_BYTES]), Err(NotTls));
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in [&b""[..], b".", b"a b", b"a\0b", b"a\r\nb", b"\xc3\xa4", b"a/b"] {
            assert_eq!(ClientHello::read(&records(&message(name, &[]), 9000)), Err(NotTls));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = ClientHello::read(&bytes);
            if let Some(first) = bytes.get_mut(..6) {
                first.copy_from_slice(&[22, 3, 1, 0, 200, 1]);
            }
            let _ = ClientHello::read(&bytes);
        }

        #[test]
        fn no_damaged_hello_causes_a_panic(at in 0usize..1500, byte: u8, length in 1usize..2000) {
            let mut message = message(b"a.example.org", &[b"h2"]);
            if let Some(place) = message.get_mut(at) {
                *place = byte;
            }
            let _ = ClientHello::read(&records(&message, length));
        }
    }
}
