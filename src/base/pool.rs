//! Memory of one size for bytes that come and go. Each thread keeps some, so that a request or a
//! stream needs it only while bytes wait in it, and allocates none.

use std::cell::RefCell;

/// The size of a piece of memory.
pub const SIZE: usize = 16 * 1024;
/// The most pieces that a thread keeps.
const KEPT: usize = 32;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns empty memory with room for [`SIZE`] bytes.
pub fn take_buffer() -> Vec<u8> {
    let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
    free.unwrap_or_else(|| Vec::with_capacity(SIZE))
}

/// Keeps memory for the next one who takes some. Memory of another size is freed.
pub fn give_back(mut memory: Vec<u8>) {
    if memory.capacity() != SIZE {
        return;
    }
    memory.clear();
    // At the end of the thread there is no place for it, and it is freed.
    FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        if free.len() < KEPT {
            free.push(memory);
        }
    })
    .ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_empty_and_only_in_one_size() {
        let mut one = take_buffer();
        one.extend_from_slice(b"a secret");
        let place = one.as_ptr();
        give_back(one);
        let mut again = take_buffer();
        assert_eq!(
            (again.as_ptr(), again.len(), again.capacity()),
            (place, 0, SIZE)
        );
        again.reserve_exact(SIZE * 2);
        give_back(again);
        give_back(Vec::new());
        assert_eq!(FREE.with_borrow(Vec::len), 0);
        let many: Vec<_> = (0..KEPT * 2).map(|_| take_buffer()).collect();
        many.into_iter().for_each(give_back);
        assert_eq!(FREE.with_borrow(Vec::len), KEPT);
    }
}
