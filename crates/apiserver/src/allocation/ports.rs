//! The node ports that are taken. Changed under one lock by the writes of Services.

use std::collections::BTreeSet;

use caretaker_machinery::rng::Rng;

use super::range::NODE_PORTS;

/// The node ports of all Services.
#[derive(Debug, Default)]
pub(crate) struct NodePortPool {
    taken: BTreeSet<u16>,
}

/// A node port is not allotted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PortRefusal {
    #[error("provided port is already allocated")]
    Taken,
    #[error(
        "provided port is not in the valid range. The range of valid ports is {}-{}",
        NODE_PORTS.first,
        NODE_PORTS.last()
    )]
    OutOfRange,
}

// === impl NodePortPool ===

impl NodePortPool {
    /// Takes a port.
    pub(super) fn take(&mut self, port: i64) -> Result<u16, PortRefusal> {
        let port = self.check(port)?;
        self.taken.insert(port);
        Ok(port)
    }

    /// Takes any port that is free.
    pub(super) fn take_any(&mut self, rng: &mut Rng) -> Option<u16> {
        let mut order = NODE_PORTS
            .order(rng)
            .filter_map(|port| u16::try_from(port).ok());
        let port = order.find(|port| !self.taken.contains(port))?;
        self.taken.insert(port);
        Some(port)
    }

    /// Returns the port if it can be taken.
    pub(super) fn check(&self, port: i64) -> Result<u16, PortRefusal> {
        let in_range = u32::try_from(port).is_ok_and(|port| NODE_PORTS.contains(port));
        let port = u16::try_from(port).ok().filter(|_| in_range);
        let port = port.ok_or(PortRefusal::OutOfRange)?;
        if self.taken.contains(&port) {
            return Err(PortRefusal::Taken);
        }
        Ok(port)
    }

    pub(super) fn release(&mut self, port: u16) {
        self.taken.remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use caretaker_machinery::rng::Rng;
    use proptest::prelude::{
        Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };

    use super::{NODE_PORTS, NodePortPool, PortRefusal};

    #[test]
    fn ports_outside_the_range_and_taken_ports_are_refused() {
        let mut pool = NodePortPool::default();
        for port in [-1, 0, 29_999, 32_768, 70_000, i64::MAX, i64::MIN] {
            assert_eq!(pool.take(port), Err(PortRefusal::OutOfRange), "{port}");
        }
        assert_eq!(pool.take(30_000), Ok(30_000));
        assert_eq!(pool.take(32_767), Ok(32_767));
        assert_eq!(pool.take(30_000), Err(PortRefusal::Taken));
        pool.release(30_000);
        assert_eq!(pool.take(30_000), Ok(30_000));
        let text =
            "provided port is not in the valid range. The range of valid ports is 30000-32767";
        assert_eq!(PortRefusal::OutOfRange.to_string(), text);
    }

    #[test]
    fn a_full_range_refuses_until_a_port_is_released() {
        let (mut pool, mut rng) = (NodePortPool::default(), Rng::seeded(5));
        for _ in 0..NODE_PORTS.size {
            assert!(pool.take_any(&mut rng).is_some());
        }
        assert_eq!(pool.take_any(&mut rng), None);
        pool.release(31_000);
        assert_eq!(pool.take_any(&mut rng), Some(31_000));
    }

    /// A step: take any port, take this one, or release the one at this place of those that are held.
    #[derive(Debug, Clone)]
    enum Step {
        Any,
        This(i64),
        Release(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Any),
            (29_990_i64..30_100).prop_map(Step::This),
            any::<usize>().prop_map(Step::Release),
        ]
    }

    proptest! {
        #[test]
        fn no_port_is_given_twice_and_released_ones_are_free(
            seed in any::<u64>(),
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let (mut pool, mut rng) = (NodePortPool::default(), Rng::seeded(seed));
            let mut held: Vec<u16> = Vec::new();
            for step in steps {
                match step {
                    Step::Any => {
                        let port = pool.take_any(&mut rng).unwrap();
                        prop_assert!(!held.contains(&port));
                        held.push(port);
                    }
                    Step::This(port) => match pool.take(port) {
                        Ok(port) => {
                            prop_assert!(!held.contains(&port));
                            held.push(port);
                        }
                        Err(PortRefusal::Taken) => {
                            prop_assert!(held.iter().any(|taken| i64::from(*taken) == port));
                        }
                        Err(PortRefusal::OutOfRange) => prop_assert!(port < 30_000),
                    },
                    Step::Release(at) if !held.is_empty() => {
                        let port = held.swap_remove(at % held.len());
                        pool.release(port);
                        prop_assert_eq!(pool.check(port.into()), Ok(port));
                    }
                    Step::Release(_) => {}
                }
            }
        }
    }
}
