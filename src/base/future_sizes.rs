//! Holds the sizes of futures. A future's size is what a connection keeps for it, and what each
//! move of it copies. The sizes are those of the build that runs the tests.

use std::future::Future;

/// Makes no value: it stands for an argument of a function that is never called.
pub(crate) fn never<T>() -> T {
    unreachable!("the function is only asked for the size of its future")
}

/// Returns the size of the future that a function returns, without calling the function.
pub(crate) fn future_size<F: Future>(_: impl FnOnce() -> F) -> usize {
    size_of::<F>()
}

/// Checks each size against the one that was accepted last. A size may be smaller by a tenth:
/// beyond that, the smaller one must be accepted, so that it cannot grow back unseen.
pub(crate) fn hold_sizes(sizes: &[(&str, usize, usize)]) {
    let wrong = sizes
        .iter()
        .filter(|(_, size, accepted)| size > accepted || size * 10 < accepted * 9);
    let wrong: Vec<String> = wrong
        .map(|(name, size, accepted)| format!("{name}: {size} bytes, and {accepted} are accepted"))
        .collect();
    assert!(
        wrong.is_empty(),
        "futures have other sizes; if they must, write these into the test:\n{}",
        wrong.join("\n")
    );
}
