//! What a kernel costs in virtual time.

use super::random::Random;
use crate::arch::Costs;

/// The cost of one execution of a kernel, by the number of elements of its tensor arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelCost {
    /// Always the same.
    Fixed {
        /// Nanoseconds.
        ns: u64,
    },
    /// A fixed time, and more for every element.
    PerElement {
        /// Nanoseconds of an execution.
        ns: u64,
        /// Picoseconds of every element.
        element_ps: u64,
    },
    /// Anything between two bounds, equally likely.
    Uniform {
        /// At least, in nanoseconds.
        low_ns: u64,
        /// At most, in nanoseconds.
        high_ns: u64,
    },
    /// Roughly normal.
    Normal {
        /// The mean, in nanoseconds.
        mean_ns: u64,
        /// The standard deviation, in nanoseconds.
        deviation_ns: u64,
    },
    /// It does not end: a core that hangs.
    Never,
}

impl KernelCost {
    /// What is wrong with it, if anything: a time longer than [`Costs::MOST`], or bounds the wrong way round.
    pub fn fault(&self) -> Option<String> {
        const MOST: u64 = Costs::MOST;
        let (a, b) = match *self {
            KernelCost::Fixed { ns } => (ns, 0),
            KernelCost::PerElement { ns, element_ps } => (ns, element_ps),
            KernelCost::Uniform { low_ns, high_ns } if low_ns > high_ns => {
                return Some(format!("goes from {low_ns} to {high_ns}. Put the smaller number first"));
            }
            KernelCost::Uniform { low_ns, high_ns } => (low_ns, high_ns),
            KernelCost::Normal { mean_ns, deviation_ns } => (mean_ns, deviation_ns),
            KernelCost::Never => return None,
        };
        let worst = a.max(b);
        (worst > MOST).then(|| format!("is {worst}. It should be a whole number from 0 to {MOST}"))
    }

    /// Nanoseconds of one execution; none if it does not end. More than the clock has room for, it is not told apart.
    pub fn draw(&self, elements: u64, random: &mut Random) -> Option<u64> {
        let ns = match *self {
            KernelCost::Fixed { ns } => ns,
            KernelCost::PerElement { ns, element_ps } => ns.saturating_add(elements.saturating_mul(element_ps) / 1000),
            KernelCost::Uniform { low_ns, high_ns } => random.between(low_ns, high_ns),
            KernelCost::Normal { mean_ns, deviation_ns } => random.normal(mean_ns, deviation_ns),
            KernelCost::Never => return None,
        };
        Some(ns.min(u64::MAX / 4))
    }
}
