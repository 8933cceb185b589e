//! Exchanges of SASL between a client and this server, up to the client's credentials.

use howdah_text::base64;
use zeroize::Zeroizing;

use crate::login::{Credentials, Method};

/// Maximum length of a user name in bytes (RFC 4616, 2: at least 255).
const MAX_USER_BYTES: usize = 1024;

/// Maximum length of a password or a token in bytes.
const MAX_PASSWORD_BYTES: usize = 8192;

/// The state of an exchange.
#[derive(Debug)]
pub struct Exchange {
    mechanism: Method,
    /// Name that the mechanism `LOGIN` has asked for.
    user: Option<Vec<u8>>,
}

/// What follows a response of the client.
#[derive(Debug)]
pub enum Progress {
    /// The client is sent this challenge, in base64.
    Challenge(String),
    /// The credentials are complete.
    Done(Credentials),
    /// The exchange has failed.
    Failed(Failure),
}

/// Reason why an exchange has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The client has cancelled it.
    Cancelled,
    /// The response has not the form of the mechanism.
    Malformed,
    /// The client, who has this name, wants to act as another user.
    OtherIdentity(Vec<u8>),
}

impl Exchange {
    /// Begins an exchange. Returns what follows the initial response, if there is one; `challenge`
    /// is that of CRAM-MD5.
    pub fn begin(
        mechanism: Method,
        initial: Option<&[u8]>,
        challenge: &[u8],
    ) -> (Exchange, Progress) {
        let mut exchange = Exchange { mechanism, user: None };
        let progress = match (initial, mechanism) {
            // The server speaks first (RFC 4422, 5).
            (Some(_), Method::CramMd5) => Progress::Failed(Failure::Malformed),
            (Some(response), _) => exchange.respond(response),
            (None, Method::Login) => Progress::Challenge(base64::encode(b"Username:")),
            (None, Method::CramMd5) => Progress::Challenge(base64::encode(challenge)),
            (None, _) => Progress::Challenge(String::new()),
        };
        (exchange, progress)
    }

    /// Takes a response of the client, in base64.
    pub fn respond(&mut self, response: &[u8]) -> Progress {
        match self.read(response) {
            Ok(progress) => progress,
            Err(failure) => Progress::Failed(failure),
        }
    }

    fn read(&mut self, response: &[u8]) -> Result<Progress, Failure> {
        if response == b"*" {
            return Err(Failure::Cancelled);
        }
        // An empty initial response (RFC 4954, 4).
        let bytes = match response {
            b"=" => Zeroizing::default(),
            response => Zeroizing::new(decode(response).ok_or(Failure::Malformed)?),
        };
        let (user, password) = match self.mechanism {
            Method::Plain => plain(&bytes)?,
            Method::Login => match self.user.take() {
                None => {
                    self.user = Some(bytes.to_vec());
                    return Ok(Progress::Challenge(base64::encode(b"Password:")));
                }
                Some(user) => (user, bytes),
            },
            Method::CramMd5 => {
                let at = bytes.iter().rposition(|byte| *byte == b' ');
                let (user, digest) = bytes.split_at(at.ok_or(Failure::Malformed)?);
                let digest = digest.get(1..).unwrap_or_default();
                if digest.len() != 32 || !digest.iter().all(u8::is_ascii_hexdigit) {
                    return Err(Failure::Malformed);
                }
                (user.to_vec(), Zeroizing::new(digest.to_vec()))
            }
            Method::External => (bytes.to_vec(), Zeroizing::default()),
            Method::Xoauth2 => xoauth2(&bytes)?,
            Method::OauthBearer => oauthbearer(&bytes)?,
            Method::Apop | Method::None => return Err(Failure::Malformed),
        };
        let may_be_empty = self.mechanism == Method::External;
        Credentials::new(self.mechanism, user, password)
            .filter(|found| may_be_empty || !found.user.is_empty())
            .map(Progress::Done)
            .ok_or(Failure::Malformed)
    }
}

impl Credentials {
    /// Returns valid credentials; `None` if they are too long, or have characters that could begin
    /// a further line or field elsewhere.
    pub fn new(method: Method, user: Vec<u8>, password: Zeroizing<Vec<u8>>) -> Option<Credentials> {
        let is_control = |byte: &u8| *byte < b' ' || *byte == 0x7f;
        let is_end = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
        let is_valid = user.len() <= MAX_USER_BYTES
            && password.len() <= MAX_PASSWORD_BYTES
            && !user.iter().any(is_control)
            && !password.iter().any(is_end);
        is_valid.then_some(Credentials { method, user, password })
    }
}

/// Decodes base64 strictly: whole groups of four with their padding, and nothing else.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let decoded = base64::decode(text)?;
    (base64::encode(&decoded).as_bytes() == text).then_some(decoded)
}

/// Decodes a message of PLAIN (RFC 4616, 2).
fn plain(bytes: &[u8]) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), Failure> {
    let mut parts = bytes.split(|byte| *byte == 0);
    let (Some(identity), Some(user), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Failure::Malformed);
    };
    // This server has no rules about who may act as whom.
    if !identity.is_empty() && identity != user {
        return Err(Failure::OtherIdentity(user.to_vec()));
    }
    Ok((user.to_vec(), Zeroizing::new(password.to_vec())))
}

/// Decodes a message of XOAUTH2, as Google has described it.
fn xoauth2(bytes: &[u8]) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), Failure> {
    let mut parts = bytes.split(|byte| *byte == 1);
    let (user, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let user = user.strip_prefix(b"user=").ok_or(Failure::Malformed)?;
    Ok((user.to_vec(), bearer(token).ok_or(Failure::Malformed)?))
}

/// Decodes a message of OAUTHBEARER (RFC 7628, 3.1).
fn oauthbearer(bytes: &[u8]) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), Failure> {
    let mut parts = bytes.split(|byte| *byte == 1);
    let header = parts.next().unwrap_or_default();
    let header = header.strip_prefix(b"n,").ok_or(Failure::Malformed)?;
    let header = header.strip_suffix(b",").ok_or(Failure::Malformed)?;
    let user = match header {
        b"" => Vec::new(),
        header => {
            let name = header.strip_prefix(b"a=").ok_or(Failure::Malformed)?;
            let name = std::str::from_utf8(name).map_err(|_| Failure::Malformed)?;
            name.replace("=2C", ",").replace("=3D", "=").into_bytes()
        }
    };
    let token = parts.find_map(bearer).ok_or(Failure::Malformed)?;
    Ok((user, token))
}

/// Returns the token of a field `auth=Bearer TOKEN`.
fn bearer(field: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let value = field.strip_prefix(b"auth=")?;
    let (scheme, token) = value.split_at_checked(7)?;
    let is_token = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    (scheme.eq_ignore_ascii_case(b"Bearer ") && is_token).then(|| Zeroizing::new(token.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond(mechanism: Method, responses: &[&[u8]]) -> Result<(String, String), Failure> {
        let (mut exchange, _) = Exchange::begin(mechanism, None, b"<1@a>");
        for response in responses {
            match exchange.respond(response) {
                Progress::Challenge(_) => {}
                Progress::Done(found) => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    return Ok((text(&found.user), text(&found.password)));
                }
                Progress::Failed(failure) => return Err(failure),
            }
        }
        panic!("more responses are needed")
    }

    fn encoded(text: &str) -> Vec<u8> {
        base64::encode(text.as_bytes()).into_bytes()
    }

    fn names(user: &str, password: &str) -> Result<(String, String), Failure> {
        Ok((user.to_owned(), password.to_owned()))
    }

    #[test]
    fn plain_has_two_nulls_and_no_other_identity() {
        let plain = |text: &str| respond(Method::Plain, &[&encoded(text)]);
        assert_eq!(plain("\0me\0secret"), names("me", "secret"));
        assert_eq!(plain("me\0me\0se cret"), names("me", "se cret"));
        assert_eq!(plain("you\0me\0secret"), Err(Failure::OtherIdentity(b"me".to_vec())));
        for wrong in ["", "me", "\0me", "\0me\0a\0b", "\0\0secret", "\0m\re\0a", "\0me\0a\r\nb"] {
            assert_eq!(plain(wrong), Err(Failure::Malformed), "{wrong:?}");
        }
    }

    #[test]
    fn base64_is_strict_and_a_star_cancels() {
        let plain = |text: &str| respond(Method::Plain, &[text.as_bytes()]);
        assert_eq!(plain("AG1lAHNlY3JldA=="), names("me", "secret"));
        for wrong in ["AG1lAHNlY3JldA", "AG1lAHNlY3JldA=", "AG1lAHNlY3JldB==", "AG1l AHNl", "!!!!"]
        {
            assert_eq!(plain(wrong), Err(Failure::Malformed), "{wrong}");
        }
        assert_eq!(plain("*"), Err(Failure::Cancelled));
        assert_eq!(plain("="), Err(Failure::Malformed));
    }

    #[test]
    fn login_asks_for_the_name_and_the_password() {
        let (user, password) = (encoded("me"), encoded("secret"));
        assert_eq!(respond(Method::Login, &[&user, &password]), names("me", "secret"));
        assert_eq!(respond(Method::Login, &[&user, b"*"]), Err(Failure::Cancelled));
        let (_, first) = Exchange::begin(Method::Login, None, b"");
        assert!(matches!(first, Progress::Challenge(text) if text == "VXNlcm5hbWU6"));
        let (_, second) = Exchange::begin(Method::Login, Some(&user), b"");
        assert!(matches!(second, Progress::Challenge(text) if text == "UGFzc3dvcmQ6"));
    }

    #[test]
    fn digests_and_tokens_are_passed_on() {
        let digest = "0123456789abcdef0123456789abcdef";
        let text = encoded(&format!("me too {digest}"));
        assert_eq!(respond(Method::CramMd5, &[&text]), names("me too", digest));
        assert_eq!(respond(Method::CramMd5, &[&encoded("me 123")]), Err(Failure::Malformed));
        let text = encoded("user=me@a\x01auth=Bearer tok.en\x01\x01");
        assert_eq!(respond(Method::Xoauth2, &[&text]), names("me@a", "tok.en"));
        let text = encoded("n,a=me=2Cyou,\x01host=a\x01auth=bearer tok\x01\x01");
        assert_eq!(respond(Method::OauthBearer, &[&text]), names("me,you", "tok"));
        for wrong in ["n,a=me,\x01\x01", "y,,\x01auth=Bearer t\x01", "n,b=me,\x01auth=Bearer t\x01"]
        {
            assert_eq!(respond(Method::OauthBearer, &[&encoded(wrong)]), Err(Failure::Malformed));
        }
        assert_eq!(respond(Method::External, &[b"="]), names("", ""));
    }
}
