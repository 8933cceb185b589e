//! The profiles that users of sites have asked for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::refusal::Refusal;

/// Maximum number of profiles of users at a time. The router makes four; the others are for
/// administrators.
const MAX_PROFILES: usize = 2;

/// The profiles of users that are being made.
#[derive(Debug, Default)]
pub struct UserProfiles(Rc<State>);

#[derive(Debug, Default)]
struct State {
    users: RefCell<HashMap<u32, Made>>,
    /// An administrator makes a profile.
    ended: Notify,
    /// A profile has ended.
    freed: Notify,
}

/// The last profile of a user.
#[derive(Debug)]
struct Made {
    is_running: bool,
    /// Time from which on the user may have another one.
    next: Instant,
}

/// A profile that is being made. Dropping it ends it.
#[derive(Debug)]
pub struct MadeProfile {
    state: Rc<State>,
    user: u32,
    began: Instant,
}

impl UserProfiles {
    /// Begins a profile. Refused if the user has one, or others have too many. A user who has had one
    /// waits as long as it took, so that others have theirs.
    pub fn begin(&self, user: u32, time: Duration) -> Result<MadeProfile, Refusal> {
        let refused = |detail: String| Err(Refusal::TooMuchAtOnce { detail });
        let began = Instant::now();
        let mut users = self.0.users.borrow_mut();
        users.retain(|_, made| made.is_running || made.next > began);
        if let Some(made) = users.get(&user) {
            let left = made.next.saturating_duration_since(began).as_secs() + 1;
            return refused(format!(
                "this user has had a profile made, or has one made now, and may have another one \
                 in {left} s"
            ));
        }
        if users.values().filter(|made| made.is_running).count() >= MAX_PROFILES {
            return refused(format!(
                "{MAX_PROFILES} profiles are made for users of other sites; try again in a minute"
            ));
        }
        users.insert(user, Made { is_running: true, next: began + time * 2 });
        Ok(MadeProfile { state: Rc::clone(&self.0), user, began })
    }

    /// Ends all profiles of users, and waits until they have ended: an administrator makes one.
    pub async fn make_way(&self) {
        self.0.ended.notify_waiters();
        loop {
            let freed = self.0.freed.notified();
            if !self.0.users.borrow().values().any(|made| made.is_running) {
                return;
            }
            freed.await;
        }
    }
}

impl MadeProfile {
    /// Waits for the profile; `None` if it was ended for an administrator.
    pub async fn unless_ended<T>(self, work: impl Future<Output = T>) -> Option<T> {
        let ended = self.state.ended.notified();
        tokio::select! {
            biased;
            () = ended => None,
            done = work => Some(done),
        }
    }
}

impl Drop for MadeProfile {
    fn drop(&mut self) {
        if let Some(made) = self.state.users.borrow_mut().get_mut(&self.user) {
            let now = Instant::now();
            made.is_running = false;
            made.next = now + now.duration_since(self.began);
        }
        self.state.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    #[test]
    fn a_user_has_one_profile_and_two_users_have_two() {
        let profiles = UserProfiles::default();
        let first = profiles.begin(1, TIME).unwrap();
        assert!(profiles.begin(1, TIME).is_err());
        let _second = profiles.begin(2, TIME).unwrap();
        assert!(profiles.begin(3, TIME).is_err());
        drop(first);
        assert!(profiles.begin(3, TIME).is_ok());
    }

    #[test]
    fn an_administrator_ends_the_profiles_of_users() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let profiles = Rc::new(UserProfiles::default());
            profiles.make_way().await;
            let profile = profiles.begin(1, TIME).unwrap();
            let made = spawn_local(profile.unless_ended(pending::<()>()));
            tokio::task::yield_now().await;
            profiles.make_way().await;
            assert_eq!(made.await.unwrap(), None);
        });
    }
}
