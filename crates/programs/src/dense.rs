//! Loops over rows that several programs' kernels are made of, in a form that compilers vectorise.

use plimsoll_runtime::{In, InOut};

/// The inner product of two rows, in eight partial sums: one sum would be a chain of additions, which may not be
/// reordered and so cannot be vectorised.
#[inline]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a8.zip(b8) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Adds `factor` times `x` to `y`.
#[inline]
pub(crate) fn add_scaled(y: &mut [f32], factor: f32, x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// The kernel C += A · B.
pub(crate) fn multiply_add(a: In<f32>, b: In<f32>, mut c: InOut<f32>) {
    for row in 0..c.rows() {
        let (a, c) = (a.row(row), c.row_mut(row));
        for (k, &factor) in a.iter().enumerate() {
            add_scaled(c, factor, b.row(k));
        }
    }
}
