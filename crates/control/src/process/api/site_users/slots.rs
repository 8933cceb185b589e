//! Limits the connections of each user.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::{Mutex, MutexGuard};

/// Maximum number of connections of a user.
const MAX_OF_USER: usize = 8;

/// Number of connections from which on a user has one.
const MANY: usize = 256;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 1024;

/// The users with connections, and how many they have.
#[derive(Debug, Default)]
pub struct Slots(Rc<RefCell<HashMap<u32, Connected>>>);

#[derive(Debug, Default)]
struct Connected {
    connections: usize,
    turn: Rc<Mutex<()>>,
}

/// The slot of a connection. Dropping it frees the slot.
#[derive(Debug)]
pub struct Slot {
    users: Rc<RefCell<HashMap<u32, Connected>>>,
    user: u32,
    turn: Rc<Mutex<()>>,
}

impl Slots {
    /// Takes a slot for a connection of a user; `None` if the user has too many.
    pub fn enter(&self, user: u32) -> Option<Slot> {
        let mut users = self.0.borrow_mut();
        let all: usize = users.values().map(|user| user.connections).sum();
        let max = match all {
            0..MANY => MAX_OF_USER,
            MANY..MAX_CONNECTIONS => 1,
            _ => 0,
        };
        if users.get(&user).map_or(0, |user| user.connections) >= max {
            return None;
        }
        let connected = users.entry(user).or_default();
        connected.connections += 1;
        let turn = Rc::clone(&connected.turn);
        Some(Slot { users: Rc::clone(&self.0), user, turn })
    }
}

impl Slot {
    /// Returns the user.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Waits until no other connection of the user has a question.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut users = self.users.borrow_mut();
        if let Some(connected) = users.get_mut(&self.user) {
            connected.connections = connected.connections.saturating_sub(1);
            if connected.connections == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_few_connections_and_leaves_room_for_others() {
        let slots = Slots::default();
        let mut own: Vec<_> = std::iter::from_fn(|| slots.enter(1)).collect();
        assert_eq!(own.len(), MAX_OF_USER);
        assert_eq!(slots.enter(2).map(|slot| slot.user()), Some(2));
        own.pop();
        assert!(slots.enter(1).is_some());
        drop(own);
        assert!(slots.0.borrow().is_empty());
    }

    #[test]
    fn many_users_have_one_connection_each() {
        let slots = Slots::default();
        let users = 100..;
        let mut all = Vec::new();
        for user in users.clone().take(MANY / MAX_OF_USER) {
            all.extend((0..MAX_OF_USER).map(|_| slots.enter(user).unwrap()));
        }
        assert!(slots.enter(100).is_none());
        for user in users.skip(MANY).take(MAX_CONNECTIONS - MANY) {
            all.push(slots.enter(user).unwrap());
            assert!(slots.enter(user).is_none());
        }
        assert!(slots.enter(1).is_none());
    }
}
