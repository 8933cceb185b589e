//! DNS queries for the addresses of a name, or the names of an address, and their responses (RFC
//! 1035).
//!
//! Any host that can send a datagram can forge a response. A response that does not repeat the id
//! and the question is therefore ignored. Aliases are followed within the same response.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Maximum number of names, aliases included, on the way to an address.
const MAX_ALIASES: usize = 16;

/// Class of the Internet (IN).
const INTERNET: u16 = 1;

/// Type of an alias record (CNAME).
const ALIAS: u16 = 5;

/// Type of a record that is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// IPv4 address.
    A,
    /// IPv6 address.
    Aaaa,
    /// Name of an address; see [`reverse_name`].
    Ptr,
    /// Servers of a service (RFC 2782).
    Srv,
}

/// A server of a service (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Servers with the lowest number are used first.
    pub priority: u16,
    /// Share among servers with the same priority.
    pub weight: u16,
    /// Port.
    pub port: u16,
    /// Name of the machine, in lower case.
    pub name: String,
}

/// Response of a DNS server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Addresses of the name.
    pub addresses: Vec<IpAddr>,
    /// Names of the address, in lower case, for [`Kind::Ptr`]. Names with other bytes than letters,
    /// digits, hyphens, underscores and dots are left out: the owner of an address chooses them.
    pub names: Vec<String>,
    /// Servers of the service, for [`Kind::Srv`]. Those whose names have other bytes are left out.
    pub services: Vec<Service>,
    /// Time to live in seconds.
    pub ttl: u32,
    /// The response was truncated to fit a datagram.
    pub is_truncated: bool,
    /// Response code: 0, or 3 if the name does not exist; others are failures of the server.
    pub code: u8,
}

/// Error: the message is not a response to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAResponse;

impl Kind {
    fn number(self) -> u16 {
        match self {
            Kind::A => 1,
            Kind::Aaaa => 28,
            Kind::Ptr => 12,
            Kind::Srv => 33,
        }
    }
}

/// Encodes a query with this id; `None` if the name is not valid.
pub fn question(number: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]); // with recursion; one question
    out.extend_from_slice(&encoded(name)?);
    out.extend_from_slice(&kind.number().to_be_bytes());
    out.extend_from_slice(&INTERNET.to_be_bytes());
    Some(out)
}

/// Decodes the response to a query. Error: the message is not a response to it.
pub fn answer(message: &[u8], number: u16, name: &str, kind: Kind) -> Result<Answer, NotAResponse> {
    let mut reader = Reader { message, at: 0 };
    let wanted = encoded(name).ok_or(NotAResponse)?;
    let (id, flags, questions) = (reader.u16()?, reader.u16()?, reader.u16()?);
    let answers = reader.u16()?;
    reader.skip(4)?;
    let is_answer = flags & 0x8000 != 0 && flags & 0x7800 == 0;
    if id != number || !is_answer || questions != 1 {
        return Err(NotAResponse);
    }
    let asked = (reader.name()?, reader.u16()?, reader.u16()?);
    if asked != (wanted.clone(), kind.number(), INTERNET) {
        return Err(NotAResponse);
    }
    let mut found = Answer {
        code: (flags & 15) as u8,
        is_truncated: flags & 0x0200 != 0,
        ttl: u32::MAX,
        ..Answer::default()
    };
    let mut records = Vec::new();
    for _ in 0..answers {
        match reader.record() {
            Ok(record) => records.push(record),
            // The query is repeated over TCP.
            Err(NotAResponse) if found.is_truncated => break,
            Err(NotAResponse) => return Err(NotAResponse),
        }
    }
    let mut name = wanted;
    for _ in 0..MAX_ALIASES {
        let own = || records.iter().filter(|record| record.owner == name);
        for record in own().filter(|record| record.kind == kind.number()) {
            match kind {
                Kind::Ptr => {
                    let target = Reader { message, at: record.at }.name()?;
                    found.names.extend(decoded(&target));
                }
                Kind::Srv => found.services.extend(service(message, record)?),
                Kind::A | Kind::Aaaa => found.addresses.extend(record.address()),
            }
            found.ttl = found.ttl.min(record.ttl);
        }
        let alias = own().find(|record| record.kind == ALIAS);
        let Some(alias) = alias.filter(|_| !found.has_result()) else { break };
        found.ttl = found.ttl.min(alias.ttl);
        let mut target = Reader { message, at: alias.at };
        name = target.name()?;
    }
    if !found.has_result() {
        found.ttl = 0;
    }
    Ok(found)
}

impl Answer {
    fn has_result(&self) -> bool {
        !self.addresses.is_empty() || !self.names.is_empty() || !self.services.is_empty()
    }
}

/// Decodes the data of an SRV record; `None` if there is no server, or its name is not valid.
fn service(message: &[u8], record: &Record<'_>) -> Result<Option<Service>, NotAResponse> {
    let mut data = Reader { message, at: record.at };
    let (priority, weight, port) = (data.u16()?, data.u16()?, data.u16()?);
    let name = decoded(&data.name()?).filter(|_| port > 0);
    Ok(name.map(|name| Service { priority, weight, port, name }))
}

/// Returns the name under which the names of an address are stored (RFC 1035, 3.5; RFC 3596, 2.5).
pub fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let octets = address.octets();
            let digits = octets.iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            let labels: String = digits.map(|digit| format!("{digit:x}.")).collect();
            format!("{labels}ip6.arpa")
        }
    }
}

/// Decodes a name; `None` if it has bytes that names of hosts do not have.
fn decoded(mut name: &[u8]) -> Option<String> {
    let mut text = String::new();
    while let [length, rest @ ..] = name
        && *length > 0
    {
        let (label, after) = rest.split_at_checked(usize::from(*length))?;
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            if !byte.is_ascii_alphanumeric() && !b"-_".contains(byte) {
                return None;
            }
            text.push(char::from(*byte));
        }
        name = after;
    }
    (!text.is_empty()).then_some(text)
}

/// Encodes a name, in lower case; `None` if it is not valid.
fn encoded(name: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len() + 2);
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        out.push(length);
        out.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    out.push(0);
    (out.len() <= MAX_NAME_BYTES).then_some(out)
}

struct Record<'m> {
    owner: Vec<u8>,
    kind: u16,
    ttl: u32,
    data: &'m [u8],
    /// Offset of the data in the message.
    at: usize,
}

impl Record<'_> {
    fn address(&self) -> Option<IpAddr> {
        match *self.data {
            [a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d).into()),
            _ => <[u8; 16]>::try_from(self.data).ok().map(|octets| Ipv6Addr::from(octets).into()),
        }
    }
}

struct Reader<'m> {
    message: &'m [u8],
    at: usize,
}

impl<'m> Reader<'m> {
    fn take(&mut self, count: usize) -> Result<&'m [u8], NotAResponse> {
        let end = self.at.checked_add(count).ok_or(NotAResponse)?;
        let taken = self.message.get(self.at..end).ok_or(NotAResponse)?;
        self.at = end;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Result<(), NotAResponse> {
        self.take(count).map(|_| ())
    }

    fn u16(&mut self) -> Result<u16, NotAResponse> {
        self.take(2)?.try_into().map(u16::from_be_bytes).map_err(|_| NotAResponse)
    }

    fn u32(&mut self) -> Result<u32, NotAResponse> {
        self.take(4)?.try_into().map(u32::from_be_bytes).map_err(|_| NotAResponse)
    }

    fn u8(&mut self) -> Result<u8, NotAResponse> {
        self.take(1)?.first().copied().ok_or(NotAResponse)
    }

    /// Reads a name, decompressed and in lower case. Each pointer must lead further back than the
    /// previous one, so that there are no loops.
    fn name(&mut self) -> Result<Vec<u8>, NotAResponse> {
        let mut name = Vec::new();
        let mut after = None;
        let mut first = self.at;
        loop {
            let length = self.u8()?;
            match length {
                0 => break,
                1..64 => {
                    name.push(length);
                    let label = self.take(usize::from(length))?;
                    name.extend(label.iter().map(u8::to_ascii_lowercase));
                }
                192.. => {
                    let to = usize::from(length & 63) << 8 | usize::from(self.u8()?);
                    after.get_or_insert(self.at);
                    if to >= first {
                        return Err(NotAResponse);
                    }
                    (self.at, first) = (to, to);
                }
                _ => return Err(NotAResponse),
            }
            if name.len() >= MAX_NAME_BYTES {
                return Err(NotAResponse);
            }
        }
        name.push(0);
        self.at = after.unwrap_or(self.at);
        Ok(name)
    }

    fn record(&mut self) -> Result<Record<'m>, NotAResponse> {
        let owner = self.name()?;
        let (kind, class, ttl) = (self.u16()?, self.u16()?, self.u32()?);
        let length = usize::from(self.u16()?);
        let at = self.at;
        let data = self.take(length)?;
        // The type of a record of another class is unknown.
        let kind = if class == INTERNET { kind } else { 0 };
        // RFC 2181, 8: a TTL with the highest bit set counts as 0.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        Ok(Record { owner, kind, ttl, data, at })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "Back.example";

    /// Builds a response with the question and this number of answers, whose records are `records`.
    fn reply(flags: u16, answers: u16, records: &[u8]) -> Vec<u8> {
        let mut message = question(7, NAME, Kind::A).unwrap();
        message[2..4].copy_from_slice(&flags.to_be_bytes());
        message[6..8].copy_from_slice(&answers.to_be_bytes());
        message.extend_from_slice(records);
        message
    }

    fn record(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
        let mut out = owner.to_vec();
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&INTERNET.to_be_bytes());
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
        out
    }

    /// Pointer to the name in the question.
    const ASKED: &[u8] = &[0xc0, 12];

    fn read(message: &[u8]) -> Result<Answer, NotAResponse> {
        answer(message, 7, NAME, Kind::A)
    }

    #[test]
    fn addresses_are_found_through_aliases() {
        let direct = [
            record(ASKED, 1, 60, &[10, 0, 0, 1]),
            record(ASKED, 1, 30, &[10, 0, 0, 2]),
            record(ASKED, 28, 5, &[0; 16]),
        ];
        let found = read(&reply(0x8180, 3, &direct.concat())).unwrap();
        assert_eq!(found.addresses, [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])]);
        assert_eq!((found.ttl, found.code, found.is_truncated), (30, 0, false));
        let (real, other) = (b"\x04real\x00", b"\x05other\x00");
        let aliased = [
            record(real, 1, 60, &[10, 0, 0, 3]),
            record(other, 1, 60, &[6, 6, 6, 6]),
            record(ASKED, ALIAS, 9, b"\x04REAL\x00"),
        ];
        let found = read(&reply(0x8180, 3, &aliased.concat())).unwrap();
        assert_eq!((found.addresses, found.ttl), (vec![IpAddr::from([10, 0, 0, 3])], 9));
        let round = [record(ASKED, ALIAS, 9, ASKED)];
        assert!(read(&reply(0x8180, 1, &round.concat())).unwrap().addresses.is_empty());
    }

    #[test]
    fn names_of_an_address_are_found_and_those_with_other_bytes_left_out() {
        let name = reverse_name([192, 0, 2, 1].into());
        assert_eq!(name, "1.2.0.192.in-addr.arpa");
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        let zeros = "0.".repeat(23);
        assert_eq!(reverse_name(v6), format!("1.{zeros}8.b.d.0.1.0.0.2.ip6.arpa"));
        let mut message = question(7, &name, Kind::Ptr).unwrap();
        message[2..4].copy_from_slice(&0x8180_u16.to_be_bytes());
        message[6..8].copy_from_slice(&2_u16.to_be_bytes());
        message.extend(record(ASKED, 12, 60, b"\x03WWW\x07example\x00"));
        message.extend(record(ASKED, 12, 60, b"\x05a\nb.c\x00"));
        let found = answer(&message, 7, &name, Kind::Ptr).unwrap();
        assert_eq!((found.names, found.ttl), (vec!["www.example".to_owned()], 60));
        assert!(found.addresses.is_empty());
    }

    #[test]
    fn servers_of_a_service_are_found() {
        let name = "_http._tcp.example";
        let mut message = question(7, name, Kind::Srv).unwrap();
        message[2..4].copy_from_slice(&0x8180_u16.to_be_bytes());
        message[6..8].copy_from_slice(&4_u16.to_be_bytes());
        let srv = |port: u8, name: &[u8]| [&[0, 1, 0, 2, 0, port][..], name].concat();
        message.extend(record(ASKED, 33, 60, &srv(80, b"\x01A\x07example\x00")));
        message.extend(record(ASKED, 33, 60, &srv(80, b"\x00")));
        message.extend(record(ASKED, 33, 60, &srv(0, b"\x01b\x00")));
        message.extend(record(ASKED, 33, 60, &srv(80, b"\x03a/b\x00")));
        let found = answer(&message, 7, name, Kind::Srv).unwrap();
        let only = Service { priority: 1, weight: 2, port: 80, name: "a.example".to_owned() };
        assert_eq!((found.services, found.ttl), (vec![only], 60));
        let short = [
            &message[..question(7, name, Kind::Srv).unwrap().len()],
            &record(ASKED, 33, 1, &[0; 5]),
        ]
        .concat();
        assert!(answer(&short, 7, name, Kind::Srv).is_err());
    }

    #[test]
    fn what_does_not_repeat_number_and_question_is_nobodys() {
        let good = reply(0x8180, 1, &record(ASKED, 1, 60, &[10, 0, 0, 1]));
        assert!(read(&good).is_ok());
        assert_eq!(answer(&good, 8, NAME, Kind::A), Err(NotAResponse));
        assert_eq!(answer(&good, 7, "other.example", Kind::A), Err(NotAResponse));
        assert_eq!(answer(&good, 7, NAME, Kind::Aaaa), Err(NotAResponse));
        assert_eq!(read(&reply(0x0100, 0, &[])), Err(NotAResponse), "a question");
        assert_eq!(read(&good[..good.len() - 1]), Err(NotAResponse));
        assert_eq!(read(&question(7, NAME, Kind::A).unwrap()[..12]), Err(NotAResponse));
    }

    #[test]
    fn references_that_lead_on_or_round_are_refused() {
        let owner = question(7, NAME, Kind::A).unwrap().len() as u8;
        for reference in [[0xc0, owner], [0xc0, owner + 1], [0xff, 0xff]] {
            let records = record(&reference, 1, 60, &[10, 0, 0, 1]);
            assert_eq!(read(&reply(0x8180, 1, &records)), Err(NotAResponse));
        }
    }

    #[test]
    fn a_name_may_point_further_back_than_255_bytes() {
        let before = record(b"\x05other\x00", 16, 60, &[0; 300]);
        let at = (reply(0x8180, 0, &[]).len() + before.len()) as u16;
        let records = [
            before,
            record(b"\x04real\x00", 1, 60, &[10, 0, 0, 3]),
            record(ASKED, ALIAS, 60, &(0xc000 | at).to_be_bytes()),
        ];
        let found = read(&reply(0x8180, 3, &records.concat())).unwrap();
        assert_eq!(found.addresses, [IpAddr::from([10, 0, 0, 3])]);
    }

    #[test]
    fn a_cut_answer_and_failures_are_told() {
        let cut = reply(0x8380, 9, &record(ASKED, 1, 60, &[10, 0, 0, 1]));
        assert!(read(&cut).unwrap().is_truncated);
        assert_eq!(read(&reply(0x8183, 0, &[])).unwrap().code, 3);
        assert_eq!(read(&reply(0x8182, 0, &[])).unwrap().code, 2);
    }

    #[test]
    fn a_name_has_labels_of_1_to_63_bytes() {
        let long = format!("{}.example", "x".repeat(63));
        assert!(question(1, &long, Kind::A).is_some() && question(1, "a.b.", Kind::A).is_some());
        for name in ["", ".", "a..b", ".a", &format!("{}.b", "x".repeat(64)), &"a.".repeat(200)] {
            assert_eq!(question(1, name, Kind::A), None, "{name}");
        }
    }

    #[test]
    fn a_query_has_the_bytes_of_the_rfc() {
        let expected = b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0\x01a\x02bc\0\0\x1c\0\x01";
        assert_eq!(question(0x0102, "A.bc", Kind::Aaaa).as_deref(), Some(&expected[..]));
        // 254 bytes of labels with their lengths, and the root: the maximum.
        let longest = [&"x".repeat(63)[..]; 4].join(".");
        assert!(question(1, &longest[..253], Kind::A).is_some());
        assert!(question(1, &longest[..254], Kind::A).is_none());
    }

    #[test]
    fn each_part_of_the_header_must_be_that_of_an_answer() {
        let good = record(ASKED, 1, 60, &[10, 0, 0, 1]);
        for flags in [0x0180, 0x8980, 0x9180, 0xc180] {
            assert_eq!(read(&reply(flags, 1, &good)), Err(NotAResponse), "{flags:#x}");
        }
        let mut two = reply(0x8180, 1, &good);
        two[5] = 2;
        assert_eq!(read(&two), Err(NotAResponse), "two questions");
        let mut class = reply(0x8180, 0, &[]);
        *class.last_mut().unwrap() = 3;
        assert_eq!(read(&class), Err(NotAResponse), "another class");
    }

    #[test]
    fn records_that_do_not_fit_the_question_give_no_address() {
        let mut chaos = record(ASKED, 1, 60, &[10, 0, 0, 1]);
        chaos[5] = 3;
        for records in [chaos, record(ASKED, 1, 60, &[10, 0, 0]), record(ASKED, 28, 60, &[0; 16])] {
            let found = read(&reply(0x8180, 1, &records)).unwrap();
            assert_eq!((found.addresses, found.code), (Vec::new(), 0));
        }
        assert_eq!(read(&reply(0x8180, 0, &[])).unwrap().ttl, 0);
        let wide = question(7, NAME, Kind::Aaaa).unwrap();
        let mut message = [&wide[..], &record(ASKED, 28, 60, &[1; 16])].concat();
        (message[2], message[7]) = (0x80, 1);
        let found = answer(&message, 7, NAME, Kind::Aaaa).unwrap();
        assert_eq!(found.addresses, [IpAddr::from([1u8; 16])]);
    }

    #[test]
    fn a_time_to_live_with_its_highest_bit_counts_as_none() {
        for (ttl, expected) in [(0x7fff_ffff, 0x7fff_ffff), (0x8000_0000, 0)] {
            let found = read(&reply(0x8180, 1, &record(ASKED, 1, ttl, &[10, 0, 0, 1]))).unwrap();
            assert_eq!(found.ttl, expected);
        }
    }

    #[test]
    fn aliases_are_followed_so_far() {
        let name = |index: usize| [1, b'a' + index as u8, 0];
        for (aliases, expected) in [(15, 1), (16, 0)] {
            let mut records = record(ASKED, ALIAS, 9, &name(0));
            for index in 1..aliases {
                records.extend(record(&name(index - 1), ALIAS, 9, &name(index)));
            }
            records.extend(record(&name(aliases - 1), 1, 60, &[10, 0, 0, 3]));
            let found = read(&reply(0x8180, aliases as u16 + 1, &records)).unwrap();
            assert_eq!(found.addresses.len(), expected, "{aliases}");
        }
    }

    #[test]
    fn a_name_within_the_message_has_the_limits_of_the_rfc() {
        let owner = |label: usize, count: usize| {
            let label = [&[label as u8][..], &vec![b'x'; label]].concat();
            [&label.repeat(count)[..], &[0]].concat()
        };
        let reads = |owner: &[u8]| read(&reply(0x8180, 1, &record(owner, 1, 1, &[0; 4]))).is_ok();
        assert!(reads(&owner(63, 3)) && !reads(&owner(64, 1)) && !reads(&owner(63, 4)));
        // 254 bytes and the root.
        assert!(reads(&[&owner(63, 3)[..192], &owner(61, 1)].concat()));
        assert!(!reads(&[&owner(63, 3)[..192], &owner(62, 1)].concat()));
        assert!(!reads(&[0x80, 0]) && !reads(&[0x40, 0]) && !reads(&[0xbf, 0]));
    }

    proptest! {
        #[test]
        fn no_message_is_too_much(mut message in proptest::collection::vec(any::<u8>(), 0..300)) {
            let kinds = [Kind::A, Kind::Aaaa, Kind::Ptr, Kind::Srv];
            let start = reply(0x8180, 3, &[]);
            let common = message.len().min(start.len());
            message[..common].copy_from_slice(&start[..common]);
            let _ = read(&message);
            for kind in kinds {
                if let [.., _, _, _, _] = start.as_slice() {
                    let at = start.len() - 4;
                    message.resize(message.len().max(start.len()), 0);
                    message[at..at + 2].copy_from_slice(&kind.number().to_be_bytes());
                }
                let _ = answer(&message, 7, NAME, kind);
            }
        }
    }
}
