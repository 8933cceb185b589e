//! Memory of the encoders of responses that are being sent: limited for each client and in total.
//!
//! An encoder lives until the end of its response, and a client decides how long that takes. A
//! response without a permit is sent as it is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use super::Compressor;
use crate::body::Body;
use crate::client::network;
use crate::message::Encoding;

/// Maximum memory of all encoders, in bytes.
const MAX_BYTES: usize = 192 << 20;

/// Maximum memory of the encoders of a client, in bytes.
const MAX_CLIENT_BYTES: usize = 48 << 20;

/// Encoders of the process.
static ENCODERS: Encoders = Encoders(Mutex::new(None));

#[derive(Debug)]
struct Encoders(Mutex<Option<Used>>);

#[derive(Debug, Default)]
struct Used {
    /// Bytes by client.
    clients: HashMap<IpAddr, usize>,
    bytes: usize,
}

/// The right to keep one encoder.
#[derive(Debug)]
pub(super) struct Permit {
    encoders: &'static Encoders,
    client: Option<IpAddr>,
    bytes: usize,
}

/// Returns the permit to keep an encoder of a response to a client (`None` on a unix socket), and
/// the content that it encodes; `None` if the memory is used up.
pub(super) fn permit(
    compressor: &Compressor,
    body: &Body,
    client: Option<IpAddr>,
) -> Option<Permit> {
    ENCODERS.permit(bytes_of(compressor) + body.in_memory(), client)
}

/// Returns the approximate memory of an encoder with its buffers, in bytes.
fn bytes_of(compressor: &Compressor) -> usize {
    match (compressor.encoding, compressor.level) {
        (Encoding::Brotli, Some(10..)) => 12 << 20,
        (Encoding::Brotli, _) => 3 << 20,
        (Encoding::Zstandard, Some(13..)) => 6 << 20,
        (Encoding::Zstandard, _) => 2 << 20,
        (Encoding::Gzip | Encoding::Deflate, _) => 512 << 10,
    }
}

impl Encoders {
    fn permit(&'static self, bytes: usize, client: Option<IpAddr>) -> Option<Permit> {
        let client = client.map(network);
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.get_or_insert_default();
        let of_client = client.and_then(|client| used.clients.get(&client)).copied().unwrap_or(0);
        if used.bytes + bytes > MAX_BYTES || of_client + bytes > MAX_CLIENT_BYTES {
            return None;
        }
        used.bytes += bytes;
        if let Some(client) = client {
            used.clients.insert(client, of_client + bytes);
        }
        Some(Permit { encoders: self, client, bytes })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = self.encoders.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(used) = used.as_mut() else { return };
        used.bytes -= self.bytes;
        let Some(client) = self.client else { return };
        let Some(of_client) = used.clients.get_mut(&client) else { return };
        *of_client -= self.bytes;
        if *of_client == 0 {
            used.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> Option<IpAddr> {
        Some([127, 0, 0, last].into())
    }

    #[test]
    fn a_client_has_a_part_of_the_memory_of_all() {
        static ENCODERS: Encoders = Encoders(Mutex::new(None));
        let all = |client| -> Vec<Permit> {
            std::iter::from_fn(|| ENCODERS.permit(3 << 20, client)).collect()
        };
        let first = all(client(1));
        assert_eq!(first.len(), MAX_CLIENT_BYTES / (3 << 20));
        let others: Vec<_> = (2..10).map(|last| all(client(last))).collect();
        let count: usize = others.iter().map(Vec::len).sum();
        assert_eq!(count + first.len(), MAX_BYTES / (3 << 20));
        assert!(ENCODERS.permit(1, None).is_none());
        drop(first);
        assert_eq!(all(None).len(), MAX_CLIENT_BYTES / (3 << 20));
        drop(others);
        let used = ENCODERS.0.lock().unwrap();
        assert!(used.as_ref().is_some_and(|used| used.bytes == 0 && used.clients.is_empty()));
    }
}
