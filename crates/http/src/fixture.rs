//! Requests for tests.

use std::sync::Arc;

use bytes::Bytes;
use howdah_template::Captures;

use crate::message::{ConnectionInfo, Fields, Request, Version};
use crate::target::Target;

/// Creates a GET request from 127.0.0.1 to port 80 of 127.0.0.2.
pub fn request(target: &str, fields: &[(&str, &str)]) -> Request {
    let bytes = target.as_bytes();
    let parsed = Target::parse(bytes).expect("a target");
    Request {
        method: Bytes::from_static(b"GET"),
        target: Bytes::copy_from_slice(bytes),
        fragment: Bytes::new(),
        path: Bytes::copy_from_slice(parsed.path(bytes)),
        query: Bytes::copy_from_slice(&bytes[parsed.query.clone()]),
        version: Version::Http11,
        host: Bytes::from_static(b"example.org"),
        fields: Fields::from_pairs(fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()))),
        connection: Arc::new(ConnectionInfo {
            peer: Some(([127, 0, 0, 1], 1234).into()),
            local: Some(([127, 0, 0, 2], 80).into()),
            ..ConnectionInfo::default()
        }),
        user: None,
        id: 0x1f,
        error: None,
        captures: Captures::default(),
        additions: None,
        handling: Default::default(),
    }
}
