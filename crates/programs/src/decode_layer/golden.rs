//! The layer computed the obvious way: plain loops in `f64`.

use super::kernels::EPSILON;
use super::{Data, LayerSizes};

pub(super) struct Golden {
    pub(super) y: Vec<f64>,
    pub(super) caches: [Vec<f64>; 2],
}

fn widen(data: &[f32]) -> Vec<f64> {
    data.iter().map(|&x| f64::from(x)).collect()
}

/// [rows, inner] · [inner, columns].
fn multiply(a: &[f64], b: &[f32], inner: usize, columns: usize) -> Vec<f64> {
    let rows = a.len() / inner;
    let mut out = vec![0.0; rows * columns];
    for i in 0..rows {
        for k in 0..inner {
            for j in 0..columns {
                out[i * columns + j] += a[i * inner + k] * f64::from(b[k * columns + j]);
            }
        }
    }
    out
}

fn norm(x: &[f64], gain: &[f32]) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(gain.len()) {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / gain.len() as f64;
        let root = (mean + f64::from(EPSILON)).sqrt();
        out.extend(row.iter().zip(gain).map(|(x, gain)| x / root * f64::from(*gain)));
    }
    out
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Attention of one head of one sequence.
fn attend(query: &[f64], keys: &[f64], values: &[f64]) -> Vec<f64> {
    let dim = query.len();
    let scores: Vec<f64> = keys
        .chunks_exact(dim)
        .map(|key| key.iter().zip(query).map(|(k, q)| k * q).sum::<f64>() / (dim as f64).sqrt())
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
    let mut out = vec![0.0; dim];
    for (score, value) in scores.iter().zip(values.chunks_exact(dim)) {
        let weight = (score - largest).exp() / sum;
        out.iter_mut().zip(value).for_each(|(out, value)| *out += weight * value);
    }
    out
}

/// The result and the caches with the new token.
pub(super) fn layer(sizes: &LayerSizes, data: &Data) -> Golden {
    let (hidden, ffn, dim) = (sizes.hidden(), sizes.ffn, sizes.dim);
    let x = widen(&data.x);
    let normed = norm(&x, &data.gains[0]);
    let [query, key, value] = [0, 1, 2].map(|which| multiply(&normed, &data.attention[which], hidden, hidden));
    let mut caches = [widen(&data.caches[0]), widen(&data.caches[1])];
    let head_len = sizes.tokens() * dim;
    for (cache, new) in caches.iter_mut().zip([&key, &value]) {
        for (head, new) in cache.chunks_exact_mut(head_len).zip(new.chunks_exact(dim)) {
            head[sizes.context * dim..].copy_from_slice(new);
        }
    }
    let mut attended = Vec::with_capacity(x.len());
    for (head, query) in query.chunks_exact(dim).enumerate() {
        let range = head * head_len..(head + 1) * head_len;
        attended.extend(attend(query, &caches[0][range.clone()], &caches[1][range]));
    }
    let middle = add(&x, &multiply(&attended, &data.attention[3], hidden, hidden));
    let inner = norm(&middle, &data.gains[1]);
    let gate = multiply(&inner, &data.mlp[0], hidden, ffn);
    let up = multiply(&inner, &data.mlp[1], hidden, ffn);
    let gated: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
    let y = add(&middle, &multiply(&gated, &data.mlp[2], ffn, hidden));
    Golden { y, caches }
}
