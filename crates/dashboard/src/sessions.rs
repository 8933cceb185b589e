//! Who has logged in. No I/O; the time is an argument.
//!
//! Somebody logs in with a code that was printed, which works once, or with the token of the
//! control API. A session then has two secrets: a cookie, which scripts of the page cannot read,
//! and a key, which only pages of this origin can. The cookie alone is not enough, because browsers
//! send it to every port of the host: a site on the same machine would get it. Each button has a
//! code of its own, made of a third secret.

use std::collections::VecDeque;
use std::time::Duration;

use crate::attempts::{Attempts, Source};
use crate::secret::{Secret, are_equal};

/// Maximum number of sessions; a further one ends the oldest.
const MAX_SESSIONS: usize = 64;

/// Time without a request after which a session ends.
const MAX_IDLE: Duration = Duration::from_hours(12);

/// Maximum length of a session.
const MAX_TIME: Duration = Duration::from_hours(7 * 24);

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Unique within the process.
    pub(crate) number: u64,
    /// The value of the cookie.
    pub(crate) cookie: Secret,
    /// The key that the page sends.
    pub(crate) key: Secret,
    buttons: Secret,
    begun: Duration,
    used: Duration,
}

impl Session {
    /// Returns the code of a button.
    pub(crate) fn button(&self, subject: &str) -> String {
        self.buttons.sign(subject)
    }

    /// Returns true if this is the code of a button.
    pub(crate) fn permits(&self, subject: &str, code: &[u8]) -> bool {
        are_equal(self.button(subject).as_bytes(), code)
    }
}

/// Reason why a log-in is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Neither the code nor the token.
    Wrong,
    /// Too many attempts; seconds until the next one.
    TooMany(u64),
    /// There are no random bytes.
    NoRandom,
}

/// The sessions, and the code that begins the next one.
#[derive(Debug)]
pub(crate) struct Sessions {
    list: VecDeque<Session>,
    code: Option<Secret>,
    last_number: u64,
    attempts: Attempts,
}

impl Sessions {
    /// Starts without sessions. `code` begins the first one.
    pub(crate) fn new(code: Option<Secret>) -> Sessions {
        Sessions { list: VecDeque::new(), code, last_number: 0, attempts: Attempts::default() }
    }

    /// Begins a session. A code that was used does not work again; the second value is the next
    /// one.
    pub(crate) fn log_in(
        &mut self,
        given: &[u8],
        token: Option<&str>,
        source: Source,
        now: Duration,
    ) -> Result<(&Session, Option<Secret>), Refused> {
        let is_code = self.code.as_ref().is_some_and(|code| code.is(given));
        // Nobody guesses a code, so that attempts of others cannot lock its owner out.
        if !is_code {
            self.attempts.take(source, now).map_err(Refused::TooMany)?;
            if !token.is_some_and(|token| are_equal(token.as_bytes(), given)) {
                return Err(Refused::Wrong);
            }
            self.attempts.forget(source);
        }
        let secret = || Secret::new().map_err(|_| Refused::NoRandom);
        let (cookie, key, buttons) = (secret()?, secret()?, secret()?);
        let mut next = None;
        if is_code {
            next = Some(secret()?);
            self.code.clone_from(&next);
        }
        self.remove_old(now);
        if self.list.len() >= MAX_SESSIONS {
            self.list.pop_front();
        }
        self.last_number += 1;
        let number = self.last_number;
        self.list.push_back(Session { number, cookie, key, buttons, begun: now, used: now });
        let session = self.list.back().ok_or(Refused::NoRandom)?;
        Ok((session, next))
    }

    fn remove_old(&mut self, now: Duration) {
        let is_old = |session: &Session| {
            now.saturating_sub(session.used) > MAX_IDLE
                || now.saturating_sub(session.begun) > MAX_TIME
        };
        self.list.retain(|session| !is_old(session));
    }

    /// Returns the session with this cookie and this key.
    pub(crate) fn find(&mut self, cookie: &[u8], key: &[u8], now: Duration) -> Option<&Session> {
        self.remove_old(now);
        let is_wanted = |session: &&mut Session| session.cookie.is(cookie) & session.key.is(key);
        let session = self.list.iter_mut().find(is_wanted)?;
        session.used = now;
        Some(session)
    }

    /// Notes that a session is used, and ends those that are too old.
    pub(crate) fn use_at(&mut self, number: u64, now: Duration) {
        self.remove_old(now);
        if let Some(session) = self.list.iter_mut().find(|session| session.number == number) {
            session.used = now;
        }
    }

    /// Returns a session by its number.
    pub(crate) fn get(&self, number: u64) -> Option<&Session> {
        self.list.iter().find(|session| session.number == number)
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, number: u64) {
        self.list.retain(|session| session.number != number);
    }

    /// Returns true if a session has not ended.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.get(number).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Option<&str> = Some("0123456789abcdef");

    fn source() -> Source {
        Source::of(None)
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_code_works_once() {
        let code = Secret::new().unwrap();
        let mut sessions = Sessions::new(Some(code.clone()));
        let text = code.expose();
        assert!(sessions.log_in(&text.as_bytes()[..63], None, source(), at(0)).is_err());
        let next = sessions.log_in(text.as_bytes(), None, source(), at(0)).unwrap().1.unwrap();
        assert_eq!(
            sessions.log_in(text.as_bytes(), None, source(), at(1)).unwrap_err(),
            Refused::Wrong
        );
        assert!(sessions.log_in(next.expose().as_bytes(), None, source(), at(1)).is_ok());
        assert!(Sessions::new(None).log_in(b"", None, source(), at(0)).is_err());
    }

    #[test]
    fn wrong_tokens_are_limited_and_lock_no_code_out() {
        let code = Secret::new().unwrap();
        let mut sessions = Sessions::new(Some(code.clone()));
        for _ in 0..crate::attempts::MAX_ATTEMPTS {
            assert_eq!(sessions.log_in(b"x", TOKEN, source(), at(1)).unwrap_err(), Refused::Wrong);
        }
        let right = TOKEN.unwrap().as_bytes();
        assert!(matches!(
            sessions.log_in(right, TOKEN, source(), at(2)),
            Err(Refused::TooMany(1..=6))
        ));
        assert!(sessions.log_in(code.expose().as_bytes(), TOKEN, source(), at(2)).is_ok());
        let other = Source::of(Some([192, 0, 2, 1].into()));
        assert!(sessions.log_in(right, TOKEN, other, at(2)).is_ok(), "of others");
        assert!(sessions.log_in(right, TOKEN, source(), at(20)).is_ok());
        assert_eq!(sessions.log_in(b"x", TOKEN, source(), at(20)).unwrap_err(), Refused::Wrong);
    }

    #[test]
    fn a_session_needs_its_cookie_and_its_key_and_ends() {
        let mut sessions = Sessions::new(None);
        let mut begin = |now: u64| {
            let (session, _) =
                sessions.log_in(TOKEN.unwrap().as_bytes(), TOKEN, source(), at(now)).unwrap();
            (session.cookie.expose(), session.key.expose())
        };
        let (first, other) = (begin(0), begin(0));
        let mut finds = |cookie: &str, key: &str, now: u64| {
            sessions.find(cookie.as_bytes(), key.as_bytes(), at(now)).map(|session| session.number)
        };
        assert_eq!(finds(&first.0, &first.1, 1), Some(1));
        assert_eq!(finds(&first.0, &other.1, 1), None);
        assert_eq!(finds(&other.0, &first.1, 1), None);
        assert_eq!(finds(&first.0, "", 1), None);
        assert_eq!(finds(&first.0, &first.1, 12 * 3_600), Some(1));
        assert_eq!(finds(&other.0, &other.1, 12 * 3_600 + 1), None, "idle");
        for day in 1..14 {
            finds(&first.0, &first.1, day * 43_000);
        }
        assert_eq!(finds(&first.0, &first.1, 8 * 86_400), None, "a week");
    }

    #[test]
    fn sessions_are_bounded_and_can_be_ended() {
        let mut sessions = Sessions::new(None);
        for _ in 0..MAX_SESSIONS + 5 {
            sessions.log_in(TOKEN.unwrap().as_bytes(), TOKEN, source(), at(0)).unwrap();
        }
        assert_eq!(sessions.list.len(), MAX_SESSIONS);
        let last = sessions.last_number;
        assert!(sessions.is_open(last) && !sessions.is_open(1));
        sessions.end(last);
        assert!(!sessions.is_open(last));
    }

    #[test]
    fn the_code_of_a_button_is_for_this_button_and_this_session() {
        let mut sessions = Sessions::new(None);
        let mut session = || {
            let (session, _) =
                sessions.log_in(TOKEN.unwrap().as_bytes(), TOKEN, source(), at(0)).unwrap();
            (session.button("restart a"), session.button("restart b"))
        };
        let (first, second) = (session(), session());
        assert!(first.0 != first.1 && first.0 != second.0);
        let session = &sessions.list[0];
        assert!(session.permits("restart a", first.0.as_bytes()));
        for wrong in [&first.1, &second.0, "", &first.0[1..]] {
            assert!(!session.permits("restart a", wrong.as_bytes()));
        }
    }
}
