//! Order statistics.

/// The value below which a share `q` of the values lies, by the nearest-rank rule; 0 for none. Reorders the values.
pub(crate) fn quantile(values: &mut [u64], q: f64) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let rank = (q * values.len() as f64).ceil() as usize;
    let at = rank.saturating_sub(1).min(values.len() - 1);
    *values.select_nth_unstable(at).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile(&mut values, 0.5), 50);
        assert_eq!(quantile(&mut values, 0.99), 99);
        assert_eq!(quantile(&mut values, 1.0), 100);
        assert_eq!(quantile(&mut [7], 0.5), 7);
        assert_eq!(quantile(&mut [], 0.5), 0);
    }
}
