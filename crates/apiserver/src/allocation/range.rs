//! A range of numbers, and the order in which free ones are looked for.
//!
//! The lowest numbers are given out last, so that clients who choose a number themselves rarely collide with others.

use std::net::Ipv4Addr;

use caretaker_machinery::rng::Rng;

/// The range of cluster IPs. It begins as kube-apiserver's default range, which has room for 254 Services only, and is the
/// one of the real servers that the suites compare with.
pub(crate) const CLUSTER_CIDR: &str = "10.0.0.0/16";
/// The first address that a Service can have: the one of Service `kubernetes`.
pub(crate) const FIRST_CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Addresses of the range without the first and the last, which no Service gets.
const CLUSTER_IP_COUNT: u32 = (1 << 16) - 2;

pub(super) const CLUSTER_IPS: NumberRange = NumberRange {
    first: u32::from_be_bytes(FIRST_CLUSTER_IP.octets()),
    size: CLUSTER_IP_COUNT,
    last_choice: 256,
};
pub(super) const NODE_PORTS: NumberRange = NumberRange {
    first: 30_000,
    size: 2_768,
    last_choice: 86,
};

/// Numbers from `first` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberRange {
    pub(super) first: u32,
    pub(super) size: u32,
    /// How many of the lowest numbers are given out only when all others are taken.
    pub(super) last_choice: u32,
}

// === impl NumberRange ===

impl NumberRange {
    pub(super) fn contains(self, number: u32) -> bool {
        number >= self.first && number - self.first < self.size
    }

    pub(super) fn last(self) -> u32 {
        self.first + self.size - 1
    }

    /// Returns all numbers once: the upper ones from a random place on, then the lowest ones likewise.
    pub(super) fn order(self, rng: &mut Rng) -> impl Iterator<Item = u32> + use<> {
        let mut band = |start: u32, end: u32| {
            let width = (end - start) as usize;
            let middle = start + u32::try_from(rng.below(width)).unwrap_or(0);
            (middle..end).chain(start..middle)
        };
        let upper = band(self.last_choice, self.size);
        let lower = band(0, self.last_choice);
        upper.chain(lower).map(move |offset| self.first + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_has_every_number_once_and_the_lowest_last() {
        for range in [
            NODE_PORTS,
            NumberRange {
                first: 5,
                size: 3,
                last_choice: 0,
            },
            NumberRange {
                first: 5,
                size: 3,
                last_choice: 3,
            },
        ] {
            let order: Vec<u32> = range.order(&mut Rng::seeded(3)).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let all: Vec<u32> = (range.first..=range.last()).collect();
            assert_eq!(sorted, all, "{range:?}");
            let lowest = &order[(range.size - range.last_choice) as usize..];
            let limit = range.first + range.last_choice;
            assert!(lowest.iter().all(|number| *number < limit), "{range:?}");
        }
    }

    #[test]
    fn cluster_ips_are_all_but_the_first_and_the_last_address() {
        let contains = |text: &str| CLUSTER_IPS.contains(text.parse::<Ipv4Addr>().unwrap().into());
        for text in ["10.0.0.1", "10.0.1.0", "10.0.255.254"] {
            assert!(contains(text), "{text}");
        }
        for text in [
            "10.0.0.0",
            "10.0.255.255",
            "9.255.255.255",
            "10.1.0.0",
            "0.0.0.0",
        ] {
            assert!(!contains(text), "{text}");
        }
    }
}
