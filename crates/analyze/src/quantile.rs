//! Order statistics.

/// The value at place `⌊n·q⌋` of the sorted values, counted from 0, as the reference's tools take it; the last of them where that lies
/// behind it, and 0 for none. Reorders the values.
pub(crate) fn quantile(values: &mut [u64], q: f64) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let at = (q * values.len() as f64) as usize;
    *values.select_nth_unstable(at.min(values.len() - 1)).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_the_share_of_the_count_rounded_down() {
        let mut values: Vec<u64> = (0..100).rev().collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| quantile(&mut values, q)), [0, 50, 99, 99]);
        let mut values = [30, 10, 20, 40, 50];
        assert_eq!([0.1, 0.5, 0.9].map(|q| quantile(&mut values, q)), [10, 30, 50]);
        assert_eq!(quantile(&mut [1, 2], 0.5), 2, "of two the later one");
        assert_eq!(quantile(&mut [7], 0.5), 7);
        assert_eq!(quantile(&mut [], 0.5), 0);
    }
}
