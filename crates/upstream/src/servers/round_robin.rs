//! Smooth weighted round robin, without I/O and clock.
//!
//! In each turn every server gains its weight, and the server with the highest sum pays the sum of
//! all weights. A server with three times the weight of another has three turns for one of it,
//! spread evenly. Fractions become whole numbers as in Unit, so that the order is the same.

/// Round-robin state of a list of servers.
#[derive(Debug)]
pub struct RoundRobin {
    servers: Box<[Server]>,
}

#[derive(Debug)]
struct Server {
    weight: i64,
    gained: i64,
}

impl RoundRobin {
    /// Creates the state for servers with these weights, none of which is negative. A server of
    /// weight 0 has no turn.
    pub fn new(weights: impl Iterator<Item = f64> + Clone) -> Self {
        /// Sum of all weights as whole numbers.
        const SUM: f64 = (i32::MAX / 2) as f64;
        let total: f64 = weights.clone().sum();
        // Weights too small to divide by are equal.
        let unit = Some(SUM / total).filter(|unit| unit.is_finite()).unwrap_or(1.0);
        let whole = |weight: f64| match unit * weight {
            none if none <= 0.0 => 0,
            scaled => scaled.max(1.0).round() as i64, // at most the sum, or it is one
        };
        let servers = weights.map(|weight| Server { weight: whole(weight), gained: 0 });
        RoundRobin { servers: servers.collect() }
    }

    /// Returns the next server of those that `is_allowed` accepts; `None` if there is none.
    pub fn next(&mut self, is_allowed: impl Fn(usize) -> bool) -> Option<usize> {
        let mut total = 0i64;
        let mut best: Option<(usize, i64)> = None;
        for (index, server) in self.servers.iter_mut().enumerate() {
            if server.weight == 0 || !is_allowed(index) {
                continue;
            }
            server.gained = server.gained.saturating_add(server.weight);
            total = total.saturating_add(server.weight);
            if best.is_none_or(|(_, highest)| server.gained > highest) {
                best = Some((index, server.gained));
            }
        }
        let (index, _) = best?;
        let server = self.servers.get_mut(index)?;
        server.gained = server.gained.saturating_sub(total);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(weights: &[f64], count: usize) -> Vec<usize> {
        let mut balance = RoundRobin::new(weights.iter().copied());
        let mut turns = vec![0; weights.len()];
        for _ in 0..count {
            turns[balance.next(|_| true).expect("a server")] += 1;
        }
        turns
    }

    #[test]
    fn servers_have_turns_by_weight() {
        for (weights, count, expected) in [
            (&[1.0, 1.0][..], 10, &[5, 5][..]),
            (&[3.0, 1.0], 100, &[75, 25]),
            (&[0.0, 999_999.012_345_6], 10, &[0, 10]),
            (&[100_000.0, 900_000.0], 10, &[1, 9]),
            (&[1.0, 0.25], 10, &[8, 2]),
            (&[1e-20, 1e-20], 10, &[5, 5]),
            (&[1e-320, 1e-320], 10, &[5, 5]),
            (&[0.1, 1.0, 0.9], 20, &[1, 10, 9]),
        ] {
            assert_eq!(turns(weights, count), expected, "{weights:?}");
        }
    }

    #[test]
    fn turns_of_a_heavy_server_are_spread() {
        let mut balance = RoundRobin::new([2.0, 1.0, 1.0].into_iter());
        let order: Vec<_> = (0..8).filter_map(|_| balance.next(|_| true)).collect();
        assert_eq!(order, [0, 1, 2, 0, 0, 1, 2, 0]);
    }

    #[test]
    fn without_a_server_with_weight_there_is_no_turn() {
        for weights in [&[][..], &[0.0], &[0.0, 0.0]] {
            assert_eq!(RoundRobin::new(weights.iter().copied()).next(|_| true), None);
        }
    }

    #[test]
    fn servers_that_were_tried_are_passed_over() {
        let mut balance = RoundRobin::new([1.0, 0.0, 2.0].into_iter());
        assert_eq!(balance.next(|index| index != 2), Some(0));
        assert_eq!(balance.next(|index| index != 0), Some(2));
        assert_eq!(balance.next(|index| index == 1), None);
    }

    proptest! {
        #[test]
        fn shares_are_those_of_the_weights(
            weights in proptest::collection::vec(0u32..100, 1..8), rounds in 1usize..4,
        ) {
            let total: u32 = weights.iter().sum();
            prop_assume!(total > 0);
            let floats: Vec<_> = weights.iter().map(|weight| f64::from(*weight)).collect();
            let turns = turns(&floats, total as usize * rounds);
            for (turns, weight) in turns.iter().zip(&weights) {
                prop_assert!(turns.abs_diff(*weight as usize * rounds) <= 1);
            }
        }
    }
}
