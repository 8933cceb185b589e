//! Bytes in JSON: a string if they are UTF-8, otherwise an array of numbers.

use std::str;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes<T, B> {
    Text(T),
    Other(B),
}

/// Borrowed bytes.
struct Borrowed<'a>(&'a [u8]);

/// Owned bytes.
struct Owned(Vec<u8>);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Borrowed(bytes) = *self;
        str::from_utf8(bytes).map_or(Bytes::Other(bytes), Bytes::Text).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Owned(match Bytes::<String, Vec<u8>>::deserialize(deserializer)? {
            Bytes::Text(text) => text.into_bytes(),
            Bytes::Other(bytes) => bytes,
        }))
    }
}

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    Borrowed(bytes).serialize(serializer)
}

pub(crate) fn deserialize<'de, D>(deserializer: D) -> Result<Vec<u8>, D::Error>
where
    D: Deserializer<'de>,
{
    Owned::deserialize(deserializer).map(|Owned(bytes)| bytes)
}

/// Bytes that may be absent.
pub(crate) mod option {
    use super::{Borrowed, Deserialize, Deserializer, Owned, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Borrowed).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error>
    where
        D: Deserializer<'de>,
    {
        Ok(Option::<Owned>::deserialize(deserializer)?.map(|Owned(bytes)| bytes))
    }
}

/// A list of bytes.
pub(crate) mod list {
    use super::{Borrowed, Deserialize, Deserializer, Owned, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        list: &[Vec<u8>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|bytes| Borrowed(bytes)))
    }

    pub(crate) fn deserialize<'de, D>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let list = Vec::<Owned>::deserialize(deserializer)?;
        Ok(list.into_iter().map(|Owned(bytes)| bytes).collect())
    }
}
