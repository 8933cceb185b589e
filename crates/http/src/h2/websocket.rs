//! The handshake of a WebSocket over HTTP/2 (RFC 8441): makes the key that HTTP/1 has and HTTP/2
//! lacks.

use aws_lc_rs::rand;
use howdah_text::base64;
use sha1::{Digest, Sha1};

use crate::message::FieldBlock;

/// Key of a handshake, which the upstream server must answer (RFC 6455, 4.1).
#[derive(Debug)]
pub(super) struct Handshake {
    key: String,
}

impl Handshake {
    /// Creates a handshake with a random key.
    pub fn new() -> Self {
        let mut nonce = [0; 16];
        // The key need not be secret: it proves that the server understands WebSocket.
        let _ = rand::fill(&mut nonce);
        Handshake { key: base64::encode(&nonce) }
    }

    /// Returns the value of `Sec-WebSocket-Key`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns true if these response fields accept the handshake.
    pub fn is_accepted(&self, fields: &FieldBlock) -> bool {
        const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
        let expected = base64::encode(&Sha1::digest(format!("{}{GUID}", self.key)));
        fields.get("sec-websocket-accept") == Some(expected.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_belong_to_the_key() {
        // The example of RFC 6455, 1.3.
        let handshake = Handshake { key: "dGhlIHNhbXBsZSBub25jZQ==".to_owned() };
        let mut fields = FieldBlock::default();
        assert!(!handshake.is_accepted(&fields));
        fields.push("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(handshake.is_accepted(&fields));
        let (one, other) = (Handshake::new(), Handshake::new());
        assert_ne!(one.key, other.key);
        assert_eq!(one.key.len(), 24);
        assert!(!one.is_accepted(&fields));
    }
}
