//! From ticks to nanoseconds.

/// A run's clock: its rate, and the tick that reports call zero.
///
/// The conversion is one multiplication in 128 bits with 48 binary places, which is exact for every rate that divides
/// 10⁹ and off by less than a nanosecond per day for any other; it never runs backwards.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunClock {
    hz: f64,
    origin: u64,
    ns_per_tick_q48: u64,
}

const PLACES: u32 = 48;

impl RunClock {
    /// Whether a number can be a rate in ticks per second.
    pub fn is_rate(hz: f64) -> bool {
        (1.0..=1e15).contains(&hz)
    }

    /// A clock of `hz` ticks per second; what is no rate is taken for 1 GHz.
    pub fn new(hz: f64, origin: u64) -> Self {
        let hz = if Self::is_rate(hz) { hz } else { 1e9 };
        // At 15 kHz and more the factor fits; below, it saturates, which only a broken file asks for.
        let ns_per_tick_q48 = (1e9 / hz * (1u64 << PLACES) as f64).round() as u64;
        Self { hz, origin, ns_per_tick_q48 }
    }

    /// A clock whose rate is taken from readings of both clocks.
    pub fn from_pairs(hz: f64, origin: u64, first: (u64, u64), last: (u64, u64)) -> Self {
        let (ticks, ns) = (last.0.saturating_sub(first.0), last.1.saturating_sub(first.1));
        // Over less than a millisecond the readings' own jitter outweighs what they could correct.
        if ticks == 0 || ns < 1_000_000 {
            Self::new(hz, origin)
        } else {
            Self::new(ticks as f64 * 1e9 / ns as f64, origin)
        }
    }

    /// Ticks per second.
    pub fn hz(&self) -> f64 {
        self.hz
    }

    /// The tick that is called zero.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// The same clock with another zero.
    pub fn with_origin(self, origin: u64) -> Self {
        Self { origin, ..self }
    }

    /// Nanoseconds since the origin; ticks before it are zero.
    #[inline]
    pub fn ns_at(&self, tick: u64) -> u64 {
        self.ns(tick.saturating_sub(self.origin))
    }

    /// The length of `ticks`, in nanoseconds.
    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick_q48) + (1 << (PLACES - 1))) >> PLACES) as u64
    }

    /// The length of a sum or mean of ticks, in nanoseconds.
    #[inline]
    pub fn ns_f64(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.hz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_divide_a_billion_are_exact() {
        let clock = RunClock::new(50e6, 1_000);
        assert_eq!(clock.ns_at(1_000 + 79_269_255_132), 79_269_255_132 * 20);
        assert_eq!(RunClock::new(1e9, 0).ns_at(u64::MAX >> 1), u64::MAX >> 1);
        assert_eq!(clock.ns_at(0), 0);
    }

    #[test]
    fn a_day_at_an_odd_rate_is_right_to_the_nanosecond() {
        let hz = 2_399_987_654.0;
        let day = (hz * 86_400.0) as u64;
        assert!(RunClock::new(hz, 0).ns(day).abs_diff(86_400_000_000_000) <= 1);
    }

    #[test]
    fn nonsense_rates_are_survived() {
        for hz in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1.0] {
            let _ = RunClock::new(hz, 5).ns_at(u64::MAX);
        }
    }
}
