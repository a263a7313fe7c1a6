//! Words for amounts and times.

use std::time::Duration;

/// Writes a number of bytes: `512 KiB`, `1.5 GiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} bytes"),
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*unit);
            match tenths % 10 {
                0 => format!("{} {name}", tenths / 10),
                rest => format!("{}.{rest} {name}", tenths / 10),
            }
        }
    }
}

/// Writes a duration in the unit that fits: `40 s`, `4 min`, `3 h`, `6 days`.
pub(super) fn span(span: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "h"), (60, "min")];
    let seconds = span.as_secs();
    match UNITS.iter().find(|(unit, _)| seconds >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

/// Lists the first three texts, and says how many more there are.
pub(super) fn some<T: AsRef<str>>(texts: &[T]) -> String {
    let first = texts.iter().take(3).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match texts.len().saturating_sub(3) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_unit_that_fits() {
        assert_eq!(
            [0, 1023, 1024, 1536, 1 << 20, 3 << 29].map(size),
            ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "1 MiB", "1.5 GiB"]
        );
        assert_eq!(
            [512 << 10, 1023 << 10, 512 << 20, 30 << 40, u64::MAX].map(size),
            ["512 KiB", "1023 KiB", "512 MiB", "30720 GiB", "17179869183.9 GiB"]
        );
        assert_eq!(
            [0, 119, 120, 7_200, 172_800].map(|s| span(Duration::from_secs(s))),
            ["0 s", "119 s", "2 min", "2 h", "2 days"]
        );
        assert_eq!(some(&["a", "b", "c", "d"]), "a, b, c and 1 more");
        assert_eq!(some(&["a"]), "a");
    }
}
