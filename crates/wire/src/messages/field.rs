//! Binary encoding of the values in messages.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use crate::bytes::{Decoder, Encode, Malformed};
use crate::queue::WorkerId;
use crate::region::Geometry;

/// A value with a binary encoding.
pub trait Field: Sized {
    /// Appends the encoding.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes a value from the front of the input.
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed>;
}

macro_rules! integer_fields {
    ($($type:ty: $put:ident $take:ident),*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.$put(*self);
            }
            fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                from.$take()
            }
        }
    )*};
}
integer_fields!(u8: put_u8 u8, u16: put_u16 u16, u32: put_u32 u32, u64: put_u64 u64);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(*self));
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.as_bytes());
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(from.text()?.to_owned())
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.len() as u32);
        for item in self {
            item.put(out);
        }
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let len = from.u32()? as usize;
        if len > from.0.len() {
            return Err(Malformed); // each item takes a byte at least
        }
        (0..len).map(|_| T::take(from)).collect()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl Field for IpAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            IpAddr::V4(ip) => out.put_bytes(&ip.octets()),
            IpAddr::V6(ip) => out.put_bytes(&ip.octets()),
        }
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let bytes = from.bytes()?;
        let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).map_err(|_| Malformed)
    }
}

impl Field for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        self.ip().put(out);
        out.put_u16(self.port());
        if let SocketAddr::V6(address) = self {
            out.put_u32(address.scope_id());
        }
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (ip, port) = (IpAddr::take(from)?, from.u16()?);
        Ok(match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, from.u32()?).into(),
        })
    }
}

impl Field for Geometry {
    fn put(&self, out: &mut Vec<u8>) {
        for value in [self.slots, self.threads, self.request_bytes, self.response_bytes] {
            out.put_u32(value);
        }
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Geometry {
            slots: from.u32()?,
            threads: from.u32()?,
            request_bytes: from.u32()?,
            response_bytes: from.u32()?,
        }
        .check()
        .map_err(|_| Malformed)
    }
}

impl Field for WorkerId {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(self.index);
        out.put_u16(self.incarnation);
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let owner = WorkerId { index: from.u16()?, incarnation: from.u16()? };
        if owner.index < WorkerId::LIMIT { Ok(owner) } else { Err(Malformed) }
    }
}

/// Defines a structure whose encoding is that of its fields, in order.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Ok($name { $($field: Field::take(from)?,)* })
            }
        }
    };
}
