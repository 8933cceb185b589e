//! Encoding of a request for a worker: CGI parameters, and the body or its location.
//!
//! The parameters are those that a FastCGI server gets, so that `$_SERVER` is the same in both
//! cases. Strings end in a NUL, not counted in their length, so that C reads them in place.
//!
//! ```text
//! flags u32 │ parameters u32 │ parameter bytes u32 │ request id u64
//! body length u64 │ queued µs u64
//! parameter: name length u32 │ value length u32 │ name NUL │ value NUL
//! body bytes, if the body is inline
//! ```
//!
//! Names that begin with byte 1 are reserved: they tell the worker something that no script sees
//! ([`Reserved`]).

use crate::bytes::{Decoder, Encode, Malformed};

/// Flags: the descriptors that follow on the worker's socket, and the load of the server.
pub mod flags {
    /// The body is in a file, passed as a descriptor.
    pub const BODY_FILE: u32 = 1;
    /// The parameters are in a file, passed as a descriptor before that of the body; the slot
    /// holds only the fixed part.
    pub const PARAMS_FILE: u32 = 2;
    /// There is no other request in the server: spinning for the next one may be worthwhile.
    pub const IS_ONLY_REQUEST: u32 = 4;
}

/// Length of the fixed part before the parameters, in bytes.
pub const HEADER_BYTES: usize = 4 + 4 + 4 + 8 + 8 + 8;

/// First byte of the names of reserved parameters.
const RESERVED: u8 = 1;

/// Parameters for the worker itself. Each may occur once in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// Settings of PHP for this request: [`PhpValues`](crate::php_values::PhpValues).
    PhpValues,
    /// The same; scripts and files of their directories cannot change these settings.
    PhpAdminValues,
    /// The value of the field `Authorization`, from which PHP takes the visitor's credentials.
    /// Without this parameter, PHP takes them from `HTTP_AUTHORIZATION`; an empty value means that
    /// there are none.
    Authorization,
    /// The value `1`: the script may have a name that does not end in `.php`.
    AnyName,
    /// The status that the response has unless the script sets another: that of the error which the
    /// script is the page of. Three digits.
    Status,
    /// The script is sampled: [`Order`](crate::profile::Order).
    Profile,
    /// The other parameters are those of a web server, which has chosen the script: PHP sees what it
    /// sees under PHP-FPM. The value is the directory that the script must be below.
    FastCgi,
}

impl Reserved {
    /// Returns the name on the wire.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Reserved::PhpValues => b"\x01php_values",
            Reserved::PhpAdminValues => b"\x01php_admin_values",
            Reserved::Authorization => b"\x01authorization",
            Reserved::AnyName => b"\x01any_name",
            Reserved::Status => b"\x01status",
            Reserved::Profile => b"\x01profile",
            Reserved::FastCgi => b"\x01fastcgi",
        }
    }

    /// Returns the meaning of a parameter's name; `None` if scripts see the parameter. Error: the
    /// name is reserved and has no meaning.
    pub fn from_name(name: &[u8]) -> Result<Option<Self>, Malformed> {
        if name.first() != Some(&RESERVED) {
            return Ok(None);
        }
        let all = [
            Reserved::PhpValues,
            Reserved::PhpAdminValues,
            Reserved::Authorization,
            Reserved::AnyName,
            Reserved::Status,
            Reserved::Profile,
            Reserved::FastCgi,
        ];
        all.into_iter().find(|one| one.name() == name).map(Some).ok_or(Malformed)
    }
}

/// Encodes the parameters of one request.
#[derive(Debug, Default)]
pub struct Params {
    bytes: Vec<u8>,
    count: u32,
}

impl Params {
    /// Creates an empty list with a capacity in bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Params { bytes: Vec::with_capacity(bytes), count: 0 }
    }

    /// Removes all parameters; keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Adds a parameter. A NUL in the value ends it for PHP as for any CGI program; callers must
    /// refuse or drop values with one. A parameter whose name is reserved is dropped, so names may
    /// come from files of a site.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_with(name, value.len(), |out| out.extend_from_slice(value));
    }

    /// Adds a parameter; `write` appends its value of `len` bytes.
    pub fn push_with(&mut self, name: &[u8], len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if name.first() != Some(&RESERVED) {
            self.put(name, len, write);
        }
    }

    /// Adds a parameter for the worker itself.
    pub fn push_reserved(&mut self, parameter: Reserved, value: &[u8]) {
        self.put(parameter.name(), value.len(), |out| out.extend_from_slice(value));
    }

    fn put(&mut self, name: &[u8], len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.put_u32(name.len() as u32);
        self.bytes.put_u32(len as u32);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        let end = self.bytes.len() + len;
        write(&mut self.bytes);
        debug_assert_eq!(end, self.bytes.len());
        self.bytes.resize(end, 0);
        self.bytes.push(0);
        self.count += 1;
    }

    /// Adds a header field as parameter: its name is `HTTP_` and the field's name in upper case
    /// with `_` for `-` (RFC 3875, 4.1.18).
    pub fn push_field(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.put_u32(name.len() as u32 + 5);
        self.bytes.put_u32(value.len() as u32);
        self.bytes.extend_from_slice(b"HTTP_");
        self.bytes
            .extend(name.iter().map(|b| if *b == b'-' { b'_' } else { b.to_ascii_uppercase() }));
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
        self.bytes.push(0);
        self.count += 1;
    }

    /// Returns the encoded parameters.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of parameters.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Returns true if there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns all names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        ParamsIter { decoder: Decoder(&self.bytes), left: self.count }
    }
}

/// Fixed part of an encoded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Flags, see [`flags`].
    pub flags: u32,
    /// Number of parameters.
    pub params: u32,
    /// Length of the encoded parameters in bytes.
    pub params_len: u32,
    /// Request id, for the log.
    pub id: u64,
    /// Length of the body in bytes.
    pub body_len: u64,
    /// Time that the request waited for a worker, in microseconds.
    pub queued_us: u64,
}

impl RequestHeader {
    /// Creates the fixed part for these parameters and this body.
    pub fn new(params: &Params, flags: u32, id: u64, body_len: u64, queued_us: u64) -> Self {
        let params_len = params.bytes.len() as u32;
        RequestHeader { flags, params: params.count, params_len, id, body_len, queued_us }
    }

    /// Appends the encoding.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.flags);
        out.put_u32(self.params);
        out.put_u32(self.params_len);
        out.put_u64(self.id);
        out.put_u64(self.body_len);
        out.put_u64(self.queued_us);
    }

    /// Decodes the fixed part. Returns it and the bytes after it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut decoder = Decoder(bytes);
        let header = RequestHeader {
            flags: decoder.u32()?,
            params: decoder.u32()?,
            params_len: decoder.u32()?,
            id: decoder.u64()?,
            body_len: decoder.u64()?,
            queued_us: decoder.u64()?,
        };
        Ok((header, decoder.0))
    }
}

/// Decodes `count` parameters from the front of `bytes`, and calls `each` for each of them. Returns
/// the bytes after them.
pub fn decode_params<'a>(
    bytes: &'a [u8],
    count: u32,
    mut each: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<&'a [u8], Malformed> {
    let mut iter = ParamsIter { decoder: Decoder(bytes), left: count };
    for (name, value) in &mut iter {
        each(name, value);
    }
    if iter.left == 0 { Ok(iter.decoder.0) } else { Err(Malformed) }
}

struct ParamsIter<'a> {
    decoder: Decoder<'a>,
    left: u32,
}

impl<'a> ParamsIter<'a> {
    fn param(&mut self) -> Result<(&'a [u8], &'a [u8]), Malformed> {
        let mut decoder = self.decoder;
        let name_len = decoder.u32()? as usize;
        let value_len = decoder.u32()? as usize;
        let name = decoder.raw(name_len)?;
        let nul = decoder.u8()?;
        let value = decoder.raw(value_len)?;
        if nul != 0 || decoder.u8()? != 0 {
            return Err(Malformed);
        }
        self.decoder = decoder;
        self.left -= 1;
        Ok((name, value))
    }
}

impl<'a> Iterator for ParamsIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 { None } else { self.param().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and values.
    type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

    fn decoded(bytes: &[u8], count: u32) -> Result<(Pairs<'_>, &[u8]), Malformed> {
        let mut pairs = Vec::new();
        let rest = decode_params(bytes, count, |name, value| pairs.push((name, value)))?;
        Ok((pairs, rest))
    }

    #[test]
    fn parameters_are_read_back_with_what_follows() {
        let mut params = Params::with_capacity(100);
        params.push(b"A", b"1");
        params.push_field(b"accept-Language", b"de");
        params.push_with(b"B", 3, |out| out.extend_from_slice(b"two"));
        params.push(b"C", b"");
        let expected: Pairs<'_> =
            vec![(b"A", b"1"), (b"HTTP_ACCEPT_LANGUAGE", b"de"), (b"B", b"two"), (b"C", b"")];
        assert_eq!(params.iter().collect::<Vec<_>>(), expected);
        let bytes = [params.as_bytes(), b"body"].concat();
        assert_eq!(decoded(&bytes, 4), Ok((expected.clone(), &b"body"[..])));
        assert_eq!(decoded(&bytes, 5), Err(Malformed));
        for cut in 0..params.as_bytes().len() {
            assert_eq!(decoded(&bytes[..cut], 4), Err(Malformed), "{cut}");
        }
        params.clear();
        assert_eq!((params.as_bytes(), params.iter().count()), (&b""[..], 0));
    }

    #[test]
    fn only_the_server_adds_reserved_parameters() {
        let mut params = Params::default();
        for reserved in [Reserved::PhpValues, Reserved::Authorization, Reserved::AnyName] {
            params.push(reserved.name(), b"from a file");
            params.push_with(reserved.name(), 1, |out| out.push(b'x'));
            assert_eq!(Reserved::from_name(reserved.name()), Ok(Some(reserved)));
        }
        assert_eq!(params.iter().count(), 0);
        params.push_reserved(Reserved::AnyName, b"1");
        assert_eq!(params.iter().collect::<Vec<_>>(), [(&b"\x01any_name"[..], &b"1"[..])]);
        assert_eq!(Reserved::from_name(b"A"), Ok(None));
        assert_eq!(Reserved::from_name(b""), Ok(None));
        assert_eq!(Reserved::from_name(b"\x01any_name2"), Err(Malformed));
    }

    #[test]
    fn a_string_without_its_nul_is_refused() {
        let mut params = Params::default();
        params.push(b"A", b"1");
        let bytes = params.as_bytes();
        assert_eq!(bytes, b"\x01\0\0\0\x01\0\0\0A\x001\0");
        for at in [9, 11] {
            let mut bytes = bytes.to_vec();
            bytes[at] = b'x';
            assert_eq!(decoded(&bytes, 1), Err(Malformed));
        }
    }

    #[test]
    fn the_fixed_part_is_read_back() {
        let mut params = Params::default();
        params.push(b"A", b"1");
        let header = RequestHeader::new(&params, flags::BODY_FILE, 1 << 40, 1 << 50, 7);
        assert_eq!((header.params, header.params_len), (1, 12));
        let mut out = Vec::new();
        header.put(&mut out);
        assert_eq!(out.len(), HEADER_BYTES);
        assert_eq!(RequestHeader::decode(&out[..HEADER_BYTES - 1]), Err(Malformed));
        out.extend_from_slice(b"rest");
        assert_eq!(RequestHeader::decode(&out), Ok((header, &b"rest"[..])));
    }
}
