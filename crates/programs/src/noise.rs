//! Input data: a small generator, so that the same settings give the same data on every machine.

/// Xorshift with a multiplied output (xorshift64*).
pub(crate) struct Noise(u64);

impl Noise {
    /// The stream of this number. Streams of different numbers start far apart.
    pub(crate) fn new(stream: u64) -> Self {
        // A product with an odd constant is never zero for a number that is not, and zero is where xorshift would stay.
        Self((stream + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A whole number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number from -1 to 1, a multiple of 2⁻²³, so that it is the same in `f32` and `f64`.
    pub(crate) fn unit(&mut self) -> f32 {
        ((self.next() >> 40) as i64 - (1 << 23)) as f32 / (1 << 23) as f32
    }

    /// `len` numbers from `-scale` to `scale`.
    pub(crate) fn vec(stream: u64, len: usize, scale: f32) -> Vec<f32> {
        let mut noise = Self::new(stream);
        (0..len).map(|_| noise.unit() * scale).collect()
    }

    /// The numbers below `len` in some order.
    pub(crate) fn shuffled(stream: u64, len: usize) -> Vec<usize> {
        let mut noise = Self::new(stream);
        let mut out: Vec<usize> = (0..len).collect();
        for last in (1..len).rev() {
            out.swap(last, noise.below(last + 1));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::Noise;

    #[test]
    fn numbers_stay_in_range_and_repeat() {
        let some = Noise::vec(3, 10_000, 1.0);
        assert!(some.iter().all(|x| (-1.0..=1.0).contains(x)));
        assert!(some.iter().any(|x| *x > 0.9) && some.iter().any(|x| *x < -0.9));
        assert_eq!(some, Noise::vec(3, 10_000, 1.0));
        assert_ne!(some, Noise::vec(4, 10_000, 1.0));
    }

    #[test]
    fn a_shuffle_keeps_every_number() {
        let mut some = Noise::shuffled(1, 100);
        assert_ne!(some, (0..100).collect::<Vec<_>>());
        some.sort_unstable();
        assert_eq!(some, (0..100).collect::<Vec<_>>());
    }
}
