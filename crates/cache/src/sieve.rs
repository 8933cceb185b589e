//! A queue that decides which element makes room: SIEVE (Zhang et al., NSDI 2024).
//!
//! New elements come to the front. A hand moves from the back to the front: an element that was
//! used since its last visit stays, the first other one goes. An element that is used once is
//! therefore gone soon, independent of the other uses, and a use takes no lock: it only sets a
//! mark.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Number of no place.
const NONE: usize = usize::MAX;

/// Marks of an element.
#[derive(Debug)]
pub struct Marks {
    is_used: AtomicBool,
    place: AtomicUsize,
}

impl Default for Marks {
    fn default() -> Self {
        Marks { is_used: AtomicBool::new(false), place: AtomicUsize::new(NONE) }
    }
}

impl Marks {
    /// Marks the element as used.
    pub fn use_it(&self) {
        // Written once, so that threads that read the same element do not contend for its memory.
        if !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
    }
}

/// An element.
pub trait Element {
    /// Returns its marks.
    fn marks(&self) -> &Marks;
}

/// A queue of elements.
#[derive(Debug)]
pub struct Sieve<T> {
    nodes: Vec<Node<T>>,
    free: Vec<usize>,
    front: usize,
    back: usize,
    hand: usize,
}

#[derive(Debug)]
struct Node<T> {
    element: Option<Arc<T>>,
    /// Towards the front.
    newer: usize,
    /// Towards the back.
    older: usize,
}

impl<T> Default for Sieve<T> {
    fn default() -> Self {
        Sieve { nodes: Vec::new(), free: Vec::new(), front: NONE, back: NONE, hand: NONE }
    }
}

impl<T: Element> Sieve<T> {
    /// Adds an element, which no queue has.
    pub fn push(&mut self, element: Arc<T>) {
        let node = Node { element: None, newer: NONE, older: self.front };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.nodes.push(Node { element: None, newer: NONE, older: NONE });
                self.nodes.len() - 1
            }
        };
        element.marks().place.store(place, Relaxed);
        if let Some(free) = self.nodes.get_mut(place) {
            *free = Node { element: Some(element), ..node };
        }
        match self.nodes.get_mut(self.front) {
            Some(front) => front.newer = place,
            None => self.back = place,
        }
        self.front = place;
    }

    /// Removes an element, if it is in this queue.
    pub fn remove(&mut self, element: &T) {
        let place = element.marks().place.load(Relaxed);
        let is_it = |known: &Arc<T>| std::ptr::eq(&raw const **known, element);
        if self.nodes.get(place).is_some_and(|node| node.element.as_ref().is_some_and(is_it)) {
            self.take(place);
        }
    }

    /// Removes the element that is worth least.
    pub fn evict(&mut self) -> Option<Arc<T>> {
        // The second round finds no mark of the first.
        for _ in 0..=2 * self.nodes.len() {
            let place = if self.hand == NONE { self.back } else { self.hand };
            let node = self.nodes.get(place)?;
            self.hand = node.newer;
            let is_used = node.element.as_ref().map(|one| one.marks().is_used.swap(false, Relaxed));
            if is_used != Some(true) {
                return self.take(place);
            }
        }
        self.take(self.back)
    }

    fn take(&mut self, place: usize) -> Option<Arc<T>> {
        let node = self.nodes.get_mut(place)?;
        let (element, newer, older) = (node.element.take()?, node.newer, node.older);
        element.marks().place.store(NONE, Relaxed);
        match self.nodes.get_mut(newer) {
            Some(node) => node.older = older,
            None => self.front = older,
        }
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = newer,
            None => self.back = newer,
        }
        if self.hand == place {
            self.hand = newer;
        }
        self.free.push(place);
        if self.free.len() == self.nodes.len() {
            *self = Sieve::default(); // gives its memory back
        }
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct One(u32, Marks);

    impl Element for One {
        fn marks(&self) -> &Marks {
            &self.1
        }
    }

    fn one(number: u32) -> Arc<One> {
        Arc::new(One(number, Marks::default()))
    }

    #[test]
    fn what_is_used_stays_and_what_was_asked_for_once_goes() {
        let mut sieve = Sieve::default();
        let all: Vec<_> = (0..5).map(one).collect();
        all.iter().for_each(|one| sieve.push(Arc::clone(one)));
        all[0].1.use_it();
        all[2].1.use_it();
        assert_eq!(sieve.evict().unwrap().0, 1);
        sieve.push(one(5));
        assert_eq!(sieve.evict().unwrap().0, 3);
        assert_eq!(sieve.evict().unwrap().0, 4);
        assert_eq!(sieve.evict().unwrap().0, 5, "the hand has not yet come back");
        assert_eq!((sieve.evict().unwrap().0, sieve.evict().unwrap().0), (0, 2));
        assert!(sieve.evict().is_none());
    }

    /// The model: a list from the back to the front, and the hand as an index into it.
    #[derive(Default)]
    struct Model(VecDeque<Arc<One>>, usize);

    impl Model {
        fn evict(&mut self) -> Option<u32> {
            loop {
                let one = self.0.get(self.1)?;
                if !one.1.is_used.swap(false, Relaxed) {
                    let evicted = self.0.remove(self.1).map(|one| one.0);
                    self.wrap();
                    return evicted;
                }
                self.1 += 1;
                self.wrap();
            }
        }

        fn wrap(&mut self) {
            if self.1 >= self.0.len() {
                self.1 = 0;
            }
        }

        fn remove(&mut self, number: u32) {
            if let Some(at) = self.0.iter().position(|one| one.0 == number) {
                self.0.remove(at);
                if at < self.1 {
                    self.1 -= 1;
                }
                self.wrap();
            }
        }
    }

    proptest! {
        #[test]
        fn it_does_what_the_list_does(steps in prop::collection::vec((0..4, 0..30usize), 0..300)) {
            let (mut sieve, mut model) = (Sieve::default(), Model::default());
            let mut all: Vec<(Arc<One>, Arc<One>)> = Vec::new();
            for (step, which) in steps {
                match (step, all.get(which)) {
                    (0, _) => {
                        let number = u32::try_from(all.len()).unwrap();
                        let pair = (one(number), one(number));
                        sieve.push(Arc::clone(&pair.0));
                        model.0.push_back(Arc::clone(&pair.1));
                        all.push(pair);
                    }
                    (1, Some((mine, models))) => {
                        mine.1.use_it();
                        models.1.use_it();
                    }
                    (2, Some((mine, models))) => {
                        sieve.remove(mine);
                        model.remove(models.0);
                    }
                    _ => prop_assert_eq!(sieve.evict().map(|one| one.0), model.evict()),
                }
            }
        }
    }
}
