//! Messages between servers of a cluster.

use howdah_cache::place::MAX_TAGS;
use howdah_cache::purge::Purge;
use howdah_cluster::message::{MAX_BYTES, Message};

/// A purge that is read is written alike; one of a later version is a purge of everything.
pub fn purge(input: &[u8]) {
    let Some(message) = Message::decode(input) else { return };
    assert!(input.len() <= MAX_BYTES);
    let again = message.encode();
    assert_eq!(Message::decode(&again).as_ref(), Some(&message));
    match input[2] {
        1 => assert_eq!(again, input),
        _ => assert_eq!((&message.what, message.store.len()), (&Purge::All, 0)),
    }
    if let Purge::Tags { tags, .. } = &message.what {
        assert!(tags.len() <= MAX_TAGS);
    }
}
