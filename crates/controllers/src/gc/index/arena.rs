//! Values by number, in pieces that are never moved: a million of them grow without a second copy of half a million.

/// How many values a piece holds: small enough not to matter when it is empty, large enough to be few.
const PIECE: usize = 4096;

/// Values by number. Numbers of removed values are given out again.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    pieces: Vec<Vec<T>>,
    free: Vec<u32>,
    len: usize,
}

// === impl Arena ===

impl<T> Arena<T> {
    pub(crate) fn new() -> Self {
        Self {
            pieces: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }

    /// How many numbers were ever in use at the same time.
    pub(crate) fn numbers(&self) -> u32 {
        number(self.len)
    }

    /// How many values there are.
    pub(crate) fn count(&self) -> usize {
        self.len - self.free.len()
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        let (piece, place) = split(number);
        &self.pieces[piece][place]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        let (piece, place) = split(number);
        &mut self.pieces[piece][place]
    }

    /// Adds a value and says its number.
    pub(crate) fn add(&mut self, value: T) -> u32 {
        if let Some(free) = self.free.pop() {
            *self.get_mut(free) = value;
            return free;
        }
        if self.len.is_multiple_of(PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        if let Some(last) = self.pieces.last_mut() {
            last.push(value);
        }
        self.len += 1;
        number(self.len - 1)
    }

    /// The value stays where it is until its number is given out again.
    pub(crate) fn remove(&mut self, number: u32) {
        self.free.push(number);
    }
}

fn split(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / PIECE, number % PIECE)
}

/// Four thousand million objects do not fit into any etcd.
fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 objects")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_out_again_and_values_stay_where_they_are() {
        let mut arena = Arena::new();
        let numbers: Vec<u32> = (0..10_000).map(|value| arena.add(value)).collect();
        assert!(numbers.iter().all(|number| arena.get(*number) == number));
        arena.remove(7);
        arena.remove(4_096);
        assert_eq!((arena.count(), arena.numbers()), (9_998, 10_000));
        assert_eq!((arena.add(1), arena.add(2)), (4_096, 7));
        assert_eq!((*arena.get(7), *arena.get(4_096)), (2, 1));
        assert_eq!(arena.add(3), 10_000);
    }
}
