//! Where ties, interleavings and drawn costs come from: a small generator, the same numbers on every machine.

/// SplitMix64: a counter and a mixer, so any seed is as good as any other.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if there is none.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of a product is uniform but for a bias of end / 2^64.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high.max(low) - low).saturating_add(1))
    }

    /// True once in `times` calls, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Roughly normal, in whole numbers so that every machine draws the same: the sum of twelve uniform numbers, which
    /// stays within six deviations. Never below zero.
    pub fn normal(&mut self, mean: u64, deviation: u64) -> u64 {
        const UNIT: i128 = 1 << 32;
        let sum: i128 = (0..12).map(|_| i128::from(self.bits() >> 32)).sum();
        let off = (sum - 6 * UNIT) * i128::from(deviation) / UNIT;
        (i128::from(mean) + off).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence_and_numbers_stay_in_their_bounds() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.between(10, 19)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!((10..20).all(|n| draw(7).contains(&n)) && draw(7).iter().all(|n| (10..20).contains(n)));
    }

    #[test]
    fn the_normal_has_its_mean_and_deviation() {
        let mut random = Random::new(1);
        let drawn: Vec<f64> = (0..10_000).map(|_| random.normal(1000, 100) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / 1e4;
        let deviation = (drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e4).sqrt();
        assert!((mean - 1000.0).abs() < 5.0 && (deviation - 100.0).abs() < 5.0, "{mean} {deviation}");
    }
}
