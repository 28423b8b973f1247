//! What a check found, and how results are compared with golden ones.

/// What a check found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether the result is right.
    pub verified: bool,
    /// How it was compared and what was found, in one line.
    pub detail: String,
}

/// The unit roundoff of `f32`: one operation is off by at most this, relatively.
pub(crate) const UNIT_F32: f64 = 1.0 / (1u64 << 24) as f64;

/// The unit roundoff of `f64`.
pub(crate) const UNIT_F64: f64 = 1.0 / (1u64 << 53) as f64;

/// How far, in units of roundoff and of the sum of the terms' sizes, a sum of `terms` terms may be off. Rounding errors
/// are as good as independent, so they grow with the root of the number of terms; the factor is four standard
/// deviations (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). For up to some twenty
/// terms this is above the worst case, which is `terms`. For long sums the worst case is so far from what can happen
/// that a result with parts missing would pass.
pub(crate) fn roundings(terms: usize) -> f64 {
    4.0 * ((terms as f64).sqrt() + 2.0)
}

impl Verdict {
    /// Compares element by element; `tolerance` is the largest difference that rounding explains at an index.
    pub(crate) fn close<T: Copy + Into<f64>>(got: &[T], golden: &[f64], tolerance: impl Fn(usize) -> f64) -> Self {
        if got.len() != golden.len() {
            let detail = format!("{} elements instead of {}", got.len(), golden.len());
            return Self { verified: false, detail };
        }
        let (mut worst, mut at) = (0.0, 0);
        let mut wrong = 0usize;
        for (index, (&got, &golden)) in got.iter().zip(golden).enumerate() {
            let error = (got.into() - golden).abs();
            let share = error / tolerance(index);
            // A NaN is within no tolerance, so the comparison is the way round that refuses it.
            let within = share <= 1.0;
            wrong += usize::from(!within);
            if share > worst || share.is_nan() {
                (worst, at) = (share, index);
            }
        }
        Self { verified: wrong == 0, detail: detail(got.len(), wrong, worst, at, tolerance(at)) }
    }

    /// Compares for equality.
    pub(crate) fn equal<T: PartialEq + std::fmt::Debug>(got: &[T], golden: &[T]) -> Self {
        if got.len() != golden.len() {
            let detail = format!("{} elements instead of {}", got.len(), golden.len());
            return Self { verified: false, detail };
        }
        let wrong = got.iter().zip(golden).filter(|(got, golden)| got != golden).count();
        let detail = match got.iter().zip(golden).position(|(got, golden)| got != golden) {
            None => format!("all {} elements equal", got.len()),
            Some(at) => format!(
                "{wrong} of {} elements are wrong; the first is [{at}]: {:?} instead of {:?}",
                got.len(),
                got[at],
                golden[at]
            ),
        };
        Self { verified: wrong == 0, detail }
    }

    /// Both checks.
    pub(crate) fn and(self, other: Self) -> Self {
        if self.verified && other.verified {
            return Self { verified: true, detail: format!("{}; {}", self.detail, other.detail) };
        }
        if self.verified { other } else { self }
    }
}

fn detail(len: usize, wrong: usize, worst: f64, at: usize, tolerance: f64) -> String {
    if wrong == 0 {
        return format!(
            "{len} elements within tolerance; the worst, [{at}], is at {:.2} % of {tolerance:.1e}",
            worst * 100.0
        );
    }
    format!(
        "{wrong} of {len} elements are wrong; the worst is [{at}], {worst:.1} times its tolerance of {tolerance:.1e}"
    )
}
