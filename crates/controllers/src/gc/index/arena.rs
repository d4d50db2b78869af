//! Values by number, in chunks that are never moved: a million values grow without copying half a million of them.

/// Values per chunk. An empty chunk costs little memory, and a million values need few chunks.
const CHUNK_LEN: usize = 4096;

/// Values by number. The numbers of removed values are reused.
#[derive(Debug)]
pub(crate) struct SlotArena<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
    slots: usize,
}

// === impl SlotArena ===

impl<T> SlotArena<T> {
    pub(crate) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
            slots: 0,
        }
    }

    /// The number of slots, in use or free.
    pub(crate) fn slot_count(&self) -> u32 {
        number(self.slots)
    }

    /// The number of slots in use.
    pub(crate) fn len(&self) -> usize {
        self.slots - self.free.len()
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        let (piece, place) = split(number);
        &self.chunks[piece][place]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        let (piece, place) = split(number);
        &mut self.chunks[piece][place]
    }

    /// Adds a value and returns its number.
    pub(crate) fn add(&mut self, value: T) -> u32 {
        if let Some(free) = self.free.pop() {
            *self.get_mut(free) = value;
            return free;
        }
        if self.slots.is_multiple_of(CHUNK_LEN) {
            self.chunks.push(Vec::with_capacity(CHUNK_LEN));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(value);
        }
        self.slots += 1;
        number(self.slots - 1)
    }

    /// Frees a number. The value is dropped when the number is reused.
    pub(crate) fn remove(&mut self, number: u32) {
        self.free.push(number);
    }
}

fn split(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / CHUNK_LEN, number % CHUNK_LEN)
}

/// More than 2^32 objects do not fit into any etcd.
fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 objects")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuses_numbers_and_does_not_move_values() {
        let mut arena = SlotArena::new();
        let numbers: Vec<u32> = (0..10_000).map(|value| arena.add(value)).collect();
        assert!(numbers.iter().all(|number| arena.get(*number) == number));
        arena.remove(7);
        arena.remove(4_096);
        assert_eq!((arena.len(), arena.slot_count()), (9_998, 10_000));
        assert_eq!((arena.add(1), arena.add(2)), (4_096, 7));
        assert_eq!((*arena.get(7), *arena.get(4_096)), (2, 1));
        assert_eq!(arena.add(3), 10_000);
    }
}
