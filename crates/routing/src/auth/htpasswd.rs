//! Files of names and password hashes, as Apache's `htpasswd` writes them.
//!
//! One user a line, `name:hash`. A hash is bcrypt (`$2y$`, also `$2a$` and `$2b$`), Apache's MD5
//! (`$apr1$`), SHA-1 (`{SHA}`), or one of crypt(3): DES (13 characters), MD5 (`$1$`), SHA-256
//! (`$5$`), SHA-512 (`$6$`), yescrypt (`$y$`). nginx's files may also have salted SHA-1 (`{SSHA}`)
//! and the password itself (`{PLAIN}`). Lines with any other hash or with plain text are not used.

use std::collections::HashMap;
use std::hint::black_box;

use howdah_text::base64;
use md5::Md5;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha1::{Digest, Sha1};
use yescrypt::{Mode, Params, Yescrypt};

use super::des;

/// Maximum cost of a bcrypt hash; hashes of a higher cost are not used. Each step doubles the time,
/// and the owner of the file could keep the processors busy (31, the highest, takes days). Defaults
/// elsewhere: PHP's `password_hash` 12, 10 before PHP 8.4; `htpasswd -B` 5. 14 takes about a
/// second.
const MAX_BCRYPT_COST: u8 = 14;

/// Maximum number of rounds of the SHA hashes of crypt(3); the default is 5,000.
const MAX_SHA_ROUNDS: u32 = 500_000;

/// Maximum length of the salts of SHA-256 and SHA-512, in characters; crypt(3) accepts no hash with
/// a longer one.
const MAX_SHA_SALT: usize = 16;

/// Maximum memory of a yescrypt hash in bytes. Debian's default (`j9T`) takes 16 MiB, the next cost
/// 32 MiB.
const MAX_YESCRYPT_BYTES: u64 = 32 << 20;

/// Maximum of the bytes that a yescrypt hash works on, over all parallel parts.
const MAX_YESCRYPT_WORK: u64 = 64 << 20;

/// A password hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hash {
    /// `$apr1$SALT$...`: the salt and the hash as text.
    Apache(Vec<u8>, Vec<u8>),
    /// `$2y$...`
    Bcrypt(String),
    /// Two characters of salt and eleven of hash, without a `$`.
    Des(Vec<u8>),
    /// `$1$SALT$...`: the salt and the hash as text.
    Md5(Vec<u8>, Vec<u8>),
    /// `$5$...` or `$6$...`
    Sha2(String),
    /// `{PLAIN}...`: the password.
    Plain(Vec<u8>),
    /// `{SHA}...`
    Sha1([u8; 20]),
    /// `{SSHA}...`: hash of the password and the salt.
    SaltedSha1([u8; 20], Vec<u8>),
    /// `$y$...`
    Yescrypt(String),
}

/// Parses a file. Returns the users by name and a description of each line that is not used.
pub fn parse(text: &[u8]) -> (HashMap<Vec<u8>, Hash>, Vec<String>) {
    let mut users = HashMap::new();
    let (mut useless, mut costly) = (0, Vec::new());
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1_usize..) {
        let whole = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
        if whole.is_empty() || whole.starts_with(b"#") {
            continue;
        }
        let mut parts = whole.splitn(3, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default();
        match parts.next().and_then(Hash::of_file) {
            // The first line of a name counts, as in Apache and nginx.
            Some(hash) => match hash.cost().filter(|cost| *cost > MAX_BCRYPT_COST) {
                Some(cost) => costly.push((number, cost)),
                None => drop(users.entry(name.to_vec()).or_insert(hash)),
            },
            None => useless += 1,
        }
    }
    let mut notes = Vec::new();
    if useless > 0 {
        notes.push(format!(
            "{useless} lines are not used: only bcrypt, apr1, {{SHA}}, {{SSHA}}, {{PLAIN}}, and \
             DES, $1$, $5$, $6$, $y$ of crypt are supported"
        ));
    }
    if let Some((line, cost)) = costly.first() {
        let others = match costly.len() - 1 {
            0 => String::new(),
            count => format!(" (nor are {count} others)"),
        };
        notes.push(format!(
            "line {line} is not used{others}: its bcrypt cost is {cost}, and {MAX_BCRYPT_COST} is \
            the highest; set the password anew with `htpasswd -B -C 12`"
        ));
    }
    (users, notes)
}

impl Hash {
    /// Parses a hash; `None` if its kind is unknown or it is malformed.
    pub fn parse(text: &[u8]) -> Option<Hash> {
        let salted = |rest: &[u8]| {
            let dollar = memchr::memchr(b'$', rest)?;
            let (salt, hash) = (rest.get(..dollar)?, rest.get(dollar + 1..)?);
            // crypt(3) uses eight characters of a salt, and accepts no hash with more.
            (salt.len() <= 8 && hash.len() == 22).then(|| (salt.to_vec(), hash.to_vec()))
        };
        if let Some(rest) = text.strip_prefix(b"$apr1$") {
            return salted(rest).map(|(salt, hash)| Hash::Apache(salt, hash));
        }
        if let Some(rest) = text.strip_prefix(b"$1$") {
            return salted(rest).map(|(salt, hash)| Hash::Md5(salt, hash));
        }
        if text.starts_with(b"$5$") || text.starts_with(b"$6$") {
            return sha2(std::str::from_utf8(text).ok()?);
        }
        if text.starts_with(b"$y$") {
            return yescrypt(std::str::from_utf8(text).ok()?);
        }
        if let Some(rest) = text.strip_prefix(b"{SHA}") {
            return base64::decode(rest)?.try_into().ok().map(Hash::Sha1);
        }
        if des::is_hash(text) {
            return Some(Hash::Des(text.to_vec()));
        }
        let is_bcrypt = [b"$2y$", b"$2a$", b"$2b$"].iter().any(|start| text.starts_with(*start));
        let text = std::str::from_utf8(text).ok()?;
        // 60 characters: the rest is salt and hash.
        let hash = (is_bcrypt && text.len() == 60).then(|| Hash::Bcrypt(text.to_owned()))?;
        hash.cost().is_some().then_some(hash)
    }

    /// Parses a hash of a `users_file`, which may also be one that only nginx has.
    fn of_file(text: &[u8]) -> Option<Hash> {
        if let Some(password) = text.strip_prefix(b"{PLAIN}") {
            return Some(Hash::Plain(password.to_vec()));
        }
        let text = text.trim_ascii_end();
        let Some(rest) = text.strip_prefix(b"{SSHA}") else { return Hash::parse(text) };
        let decoded = base64::decode(rest)?;
        let (hash, salt) = decoded.split_first_chunk::<20>()?;
        Some(Hash::SaltedSha1(*hash, salt.to_vec()))
    }

    /// Parses a hash; `None` also if testing it would take too long.
    pub fn usable(text: &[u8]) -> Option<Hash> {
        Hash::parse(text).filter(|hash| hash.cost().is_none_or(|cost| cost <= MAX_BCRYPT_COST))
    }

    /// Returns the cost of a bcrypt hash, a number of two digits: it takes 2^cost rounds.
    fn cost(&self) -> Option<u8> {
        let Hash::Bcrypt(text) = self else { return None };
        let [b'$', b'2', _, b'$', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'$', ..] =
            text.as_bytes()
        else {
            return None;
        };
        Some((tens - b'0') * 10 + (ones - b'0'))
    }

    /// Returns true if testing a password takes so long that it must not run on a router thread.
    pub fn is_slow(&self) -> bool {
        !matches!(self, Hash::Plain(_) | Hash::Sha1(_) | Hash::SaltedSha1(..))
    }

    /// Returns true if this is the password. The time does not depend on how much of it is right.
    pub fn accepts(&self, password: &[u8]) -> bool {
        match self {
            Hash::Apache(salt, hash) => equal(&md5_crypt(password, b"$apr1$", salt), hash),
            Hash::Md5(salt, hash) => equal(&md5_crypt(password, b"$1$", salt), hash),
            Hash::Sha2(hash) => ShaCrypt::default().verify_password(password, &**hash).is_ok(),
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::Des(hash) => des::hash(password, hash).is_some_and(|text| equal(&text, hash)),
            Hash::Yescrypt(hash) => Yescrypt::default().verify_password(password, &**hash).is_ok(),
            Hash::Plain(known) => equal(&Sha1::digest(password), &Sha1::digest(known)),
            Hash::Sha1(hash) => equal(&Sha1::digest(password), hash),
            Hash::SaltedSha1(hash, salt) => {
                let digest = Sha1::new().chain_update(password).chain_update(salt).finalize();
                equal(&digest, hash)
            }
        }
    }
}

/// Compares all bytes, so that the time does not depend on the place of the first difference.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    a.len() == b.len() && differences == 0
}

/// Returns a hash of crypt(3) with SHA-256 or SHA-512, unless it takes too many rounds.
fn sha2(text: &str) -> Option<Hash> {
    let mut fields = text.split('$').skip(2);
    let mut salt = fields.next()?;
    if let Some(rounds) = salt.strip_prefix("rounds=") {
        let rounds: u32 = rounds.parse().ok()?;
        salt = fields.next()?;
        if !(1000..=MAX_SHA_ROUNDS).contains(&rounds) {
            return None;
        }
    }
    let hash = fields.next()?;
    (salt.len() <= MAX_SHA_SALT && matches!(hash.len(), 43 | 86) && fields.next().is_none())
        .then(|| Hash::Sha2(text.to_owned()))
}

/// Returns a yescrypt hash in the only form that crypt(3) makes, unless it takes too much memory or
/// time.
fn yescrypt(text: &str) -> Option<Hash> {
    let mut fields = text.split('$').skip(2);
    let (parameters, _, hash) = (fields.next()?, fields.next()?, fields.next()?);
    let parsed: Params = parameters.parse().ok()?;
    let memory = 128_u64.checked_mul(parsed.n())?.checked_mul(parsed.r().into())?;
    let work = memory.checked_mul(parsed.p().into())?;
    if memory > MAX_YESCRYPT_BYTES || work > MAX_YESCRYPT_WORK {
        return None;
    }
    // No further passes and none of the other modes, which the crate does not let us read.
    let plain = Params::new(Mode::Rw, parsed.n(), parsed.r(), parsed.p()).ok()?;
    (parsed == plain && hash.len() == 43 && fields.next().is_none())
        .then(|| Hash::Yescrypt(text.to_owned()))
}

/// Computes the MD5 hash of crypt(3), or with another `magic` Apache's: a thousand rounds over
/// password and salt.
fn md5_crypt(password: &[u8], magic: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut context = Md5::new();
    for part in [password, magic, salt] {
        context.update(part);
    }
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password);
    let inner = inner.finalize();
    for start in (0..password.len()).step_by(16) {
        context.update(&inner[..(password.len() - start).min(16)]);
    }
    let mut rest = password.len();
    while rest > 0 {
        // The first byte exists: there is a length.
        context.update(if rest & 1 == 1 { &[0] } else { &password[..1] });
        rest >>= 1;
    }
    let mut hash = context.finalize();
    for round in 0..1000 {
        let mut context = Md5::new();
        let odd = round % 2 == 1;
        context.update(if odd { password } else { &hash[..] });
        if round % 3 != 0 {
            context.update(salt);
        }
        if round % 7 != 0 {
            context.update(password);
        }
        context.update(if odd { &hash[..] } else { password });
        hash = context.finalize();
    }
    let mut text = Vec::with_capacity(22);
    // There are sixteen bytes, so all indices are in range.
    for [high, middle, low] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        let bits = [hash[high], hash[middle], hash[low]].map(u32::from);
        put(&mut text, bits[0] << 16 | bits[1] << 8 | bits[2], 4);
    }
    put(&mut text, u32::from(hash[11]), 2);
    text
}

fn put(text: &mut Vec<u8>, mut bits: u32, count: usize) {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for _ in 0..count {
        // Six bits are always an index into the 64 digits.
        text.push(DIGITS[(bits & 63) as usize]);
        bits >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_htpasswd_accept_their_password_only() {
        for line in HTPASSWD_LINES {
            let hash = Hash::parse(line.as_bytes()).expect(line);
            assert!(hash.accepts(b"open sesame"), "{line}");
            assert!(!hash.accepts(b"open se") && !hash.accepts(b""), "{line}");
        }
        assert!(Hash::parse(b"$apr1$abc$BfqKdn9xFDWJPa3kcp/PH0").unwrap().accepts(b""));
    }

    #[test]
    fn other_hashes_let_nobody_in() {
        for text in [
            "",
            "plain",
            "$apr1$",
            "$apr1$salt",
            "{SHA}",
            "{SHA}AAAA",
            "$2y$05$short",
            "$6$a$b",
            "$1$a",
            "$5$",
            "$1$morethan8$9qMkHazuSy1Q8myEum7yb/",
            "$5$rounds=10$pepper$7notoNNIjGbSyBBGuLMr2IJKoBB8SHXrJS7iZmNdvYB",
            "$5$rounds=500001$pepper$7notoNNIjGbSyBBGuLMr2IJKoBB8SHXrJS7iZmNdvYB",
            "$5$more than 16 bytes$yrhPKxCqiWcCE9h0g86j6Ugz7SDFdFm.BjU.d8RaQnC",
            "$y$j9T",
            "$y$j9T$abcd$",
            "$y$j9T$abcd$q0BC/1zAm1egDOA28ap7Pv/qqIp2.2/hfz8I9ccfx08$",
            // Too much memory (twice), further passes, another mode.
            "$y$jBT$abcd$q0BC/1zAm1egDOA28ap7Pv/qqIp2.2/hfz8I9ccfx08",
            "$y$jS/$abcd$q0BC/1zAm1egDOA28ap7Pv/qqIp2.2/hfz8I9ccfx08",
            "$y$j75/.$abcd$IrvFHe1xPHg4fRTxelMUxIeLcnQDYULx8OotLr0Z1H1",
            "$y$.7.$abcd$J.GQqtjPzJm6jHK.uXDT8EIkEEfJHaTA8gIB6JznX9B",
        ] {
            assert_eq!(Hash::parse(text.as_bytes()), None, "{text}");
        }
        let (users, useless) =
            parse(b"# note\n\na:plain\r\nb\n:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=\n");
        assert_eq!(users.len(), 1);
        assert_eq!(
            useless,
            [
                "2 lines are not used: only bcrypt, apr1, {SHA}, {SSHA}, {PLAIN}, and DES, $1$, $5$, \
                 $6$, $y$ of crypt are supported"
            ]
        );
    }

    /// Scenario: a file of nginx, with the forms that Apache does not have.
    #[test]
    fn forms_that_only_nginx_has_are_those_of_files() {
        // SHA-1 of "open sesame" and the salt "salt".
        let salted = "{SSHA}hN5uxFJUEWCPg56kk42tnVCdJ61zYWx0";
        let text =
            format!("a:{{PLAIN}}open sesame:note\r\nb:{salted} \nc:{{PLAIN}} x \nd:{{PLAIN}}\n");
        let (users, notes) = parse(text.as_bytes());
        assert!(notes.is_empty(), "{notes:?}");
        for (name, password, accepts) in [
            ("a", "open sesame", true),
            ("a", "open sesam", false),
            ("a", "", false),
            ("b", "open sesame", true),
            ("b", "open sesame2", false),
            ("c", " x ", true),
            ("c", "x", false),
            ("d", "", true),
            ("d", "d", false),
        ] {
            let found = users.get(name.as_bytes()).map(|hash| hash.accepts(password.as_bytes()));
            assert_eq!(found, Some(accepts), "{name} {password}");
        }
        for text in ["{SSHA}", "{SSHA}aGFzaA==", "{SSHA}?", "{plain}a"] {
            assert_eq!(Hash::of_file(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Hash::usable(b"{PLAIN}a"), None, "not in files of Apache's directives");
        assert_eq!(Hash::usable(salted.as_bytes()), None);
    }

    #[test]
    fn the_first_line_of_a_name_counts() {
        let text = format!("a:{}\na:{}:more\n", HTPASSWD_LINES[0], HTPASSWD_LINES[1]);
        let (users, useless) = parse(text.as_bytes());
        assert!(useless.is_empty());
        assert_eq!(users.get(&b"a"[..]), Hash::parse(HTPASSWD_LINES[0].as_bytes()).as_ref());
    }

    #[test]
    fn a_bcrypt_hash_that_would_take_too_long_is_not_used_and_its_line_is_named() {
        let of = |cost: &str| HTPASSWD_LINES[0].replace("$05$", &format!("${cost}$"));
        let text = format!("a:{}\nb:{}\n\nc:{}\n", of("14"), of("15"), of("31"));
        let (users, notes) = parse(text.as_bytes());
        assert_eq!(users.keys().collect::<Vec<_>>(), [b"a"]);
        assert_eq!(notes.len(), 1, "{notes:?}");
        let expected = "line 2 is not used (nor are 1 others): its bcrypt cost is 15, and 14 is";
        assert!(notes[0].starts_with(expected), "{notes:?}");
        for cost in ["1:", "+9", "5$"] {
            assert_eq!(Hash::parse(of(cost).as_bytes()), None, "{cost}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_yescrypt_hash_takes_the_checker_down(
            parameters in "j[./0-9A-Z]{1,8}", salt in "[./0-9A-Za-z$]{0,9}",
            hash in "[./0-9A-Za-z]{43}",
        ) {
            if let Some(hash) = Hash::parse(format!("$y${parameters}${salt}${hash}").as_bytes()) {
                hash.accepts(b"open sesame");
            }
        }

        #[test]
        fn no_file_makes_the_parser_fail(text in proptest::collection::vec(0u8..128, 0..200)) {
            parse(&text);
        }
    }

    /// Made with `htpasswd -B`, PHP's `password_hash`, `openssl passwd -apr1`, `htpasswd -s`, and
    /// `openssl passwd` with `-1`, `-5` and `-6`; the one with a number of rounds with PHP's
    /// `crypt`. The others with libcrypt: DES, which reads eight characters, and yescrypt of a low
    /// cost, once in parallel parts.
    const HTPASSWD_LINES: [&str; 11] = [
        "$2y$05$lYG9a7T3lGywFJxnkAiAxO3B5m.CSj7nsxqRqz7lIdbrqbbDmNFxq",
        "$2y$04$3jfO2TrbM9ffPhRb.SIkXOfP8D3azxrnzxo6NGgwKzAxuBNTxG7qK",
        "$apr1$Pol6dxBB$vF5NSPygtVhtOZ6k.uEnN/",
        "{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=",
        "$1$abcdefgh$9qMkHazuSy1Q8myEum7yb/",
        "$5$saltsalt$yrhPKxCqiWcCE9h0g86j6Ugz7SDFdFm.BjU.d8RaQnC",
        "$6$saltsaltsalt$VQCHS9jZgaZl0Mz8sqN5nA3FDB2mZS2FVgYEe0e4sFYq/qRvjoS1fr5tPcf7bV5VL3IUbzNg9QpxpMaPXE2jT1",
        "$5$rounds=1234$pepper$7notoNNIjGbSyBBGuLMr2IJKoBB8SHXrJS7iZmNdvYB",
        "ab/G8gtZdMwak",
        "$y$j75$WZaPV7LSUEKMo34.$NMb1ywKGGfcG1txu/ykdTfTaRtr5q7C2e2IITci0L14",
        "$y$j75.0$WZaP$RultwviRlVG13E1j2VaVnLoLevy5O/EvwULG0v0JEID",
    ];
}
