//! The kernels of a decoder layer.

use crate::dense::{add_scaled, dot, multiply_add};
use plimsoll_runtime::{CoreClass, Device, In, InOut, Kernel, Out};
use plimsoll_runtime::{Read, ReadWrite, Value, Write};

/// Keeps the root of a norm away from zero.
pub(super) const EPSILON: f32 = 1e-5;

pub(super) struct DecodeKernels {
    pub(super) zero: Kernel<(Write<f32>,)>,
    pub(super) copy: Kernel<(Read<f32>, Write<f32>)>,
    pub(super) norm: Kernel<(Read<f32>, Read<f32>, Write<f32>)>,
    pub(super) project: Kernel<(Read<f32>, Read<f32>, ReadWrite<f32>)>,
    pub(super) append: Kernel<(Read<f32>, Write<f32>)>,
    pub(super) score: Kernel<(Read<f32>, Read<f32>, Value<f32>, Write<f32>)>,
    pub(super) softmax: Kernel<(ReadWrite<f32>,)>,
    pub(super) weigh: Kernel<(Read<f32>, Read<f32>, Write<f32>)>,
    pub(super) silu: Kernel<(Read<f32>, ReadWrite<f32>)>,
}

impl DecodeKernels {
    pub(super) fn register(device: &mut Device) -> Self {
        let (matrix, vector) = (CoreClass::Aic, CoreClass::Aiv);
        Self {
            zero: device.kernel_on(vector, "zero", |mut x: Out<f32>| x.fill(0.0)),
            copy: device.kernel_on(vector, "copy", copy),
            norm: device.kernel_on(vector, "rmsnorm", norm),
            project: device.kernel_on(matrix, "project", multiply_add),
            append: device.kernel_on(vector, "append", append),
            score: device.kernel_on(matrix, "qk", score),
            softmax: device.kernel_on(vector, "softmax", softmax),
            weigh: device.kernel_on(matrix, "pv", weigh),
            silu: device.kernel_on(vector, "silu-mul", silu),
        }
    }
}

fn copy(from: In<f32>, mut to: Out<f32>) {
    for row in 0..to.rows() {
        to.row_mut(row).copy_from_slice(from.row(row));
    }
}

/// Divides every row by the root of its mean square and multiplies it with the gain.
fn norm(x: In<f32>, gain: In<f32>, mut out: Out<f32>) {
    for row in 0..x.rows() {
        let from = x.row(row);
        let factor = 1.0 / (dot(from, from) / from.len() as f32 + EPSILON).sqrt();
        for ((out, x), gain) in out.row_mut(row).iter_mut().zip(from).zip(gain.row(0)) {
            *out = x * factor * gain;
        }
    }
}

/// Cuts one row into heads and puts each at its place in the cache.
fn append(new: In<f32>, mut cache: Out<f32>) {
    let new = new.row(0);
    let dim = new.len() / cache.rows();
    for head in 0..cache.rows() {
        cache.row_mut(head).copy_from_slice(&new[head * dim..(head + 1) * dim]);
    }
}

fn score(query: In<f32>, keys: In<f32>, scale: f32, mut scores: Out<f32>) {
    let query = query.row(0);
    for (token, score) in scores.row_mut(0).iter_mut().enumerate() {
        *score = scale * dot(query, keys.row(token));
    }
}

fn softmax(mut scores: InOut<f32>) {
    let row = scores.row_mut(0);
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|score| *score = (*score - largest).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|score| *score /= sum);
}

fn weigh(weights: In<f32>, values: In<f32>, mut out: Out<f32>) {
    out.fill(0.0);
    for (token, &weight) in weights.row(0).iter().enumerate() {
        add_scaled(out.row_mut(0), weight, values.row(token));
    }
}

/// Multiplies with the SiLU of the gate.
fn silu(gate: In<f32>, mut up: InOut<f32>) {
    for row in 0..up.rows() {
        for (up, gate) in up.row_mut(row).iter_mut().zip(gate.row(row)) {
            *up *= gate / (1.0 + (-gate).exp());
        }
    }
}
