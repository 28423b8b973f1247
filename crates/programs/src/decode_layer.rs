//! `decode-layer`: one transformer decoder layer for one new token per sequence.
//!
//! ```text
//! normed = rmsnorm(x)            query, key, value = normed · Wq, Wk, Wv      key, value → cache
//! middle = x + attention · Wo    inner = rmsnorm(middle)
//! y = middle + (silu(inner · Wg) · (inner · Wu)) · Wd
//! ```
//!
//! Scopes are three deep: the layer holds what passes between its stages; a stage is a projection, or the attention of
//! one sequence; inside it, one column of tiles, or one head.

mod golden;
mod kernels;

use crate::noise::Noise;
use crate::verdict::{UNIT_F32, roundings};
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use kernels::DecodeKernels;
use plimsoll_runtime::{
    Device, DeviceBuffer, Error, Orchestrator, Result, SharedBuffer, Tensor, inout, input, output, output_existing,
    scalar,
};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "decode-layer",
    about: "a transformer decoder layer, one decode step: norms, QKV, attention over a KV cache, gated MLP",
    params: &[
        ProgramSetting::new("batch", 4, 1, 64, "sequences"),
        ProgramSetting::new("heads", 8, 1, 64, "attention heads"),
        ProgramSetting::new("dim", 32, 1, 256, "elements of a head; the layer is heads·dim wide"),
        ProgramSetting::new("ffn", 512, 1, 16_384, "width of the MLP"),
        ProgramSetting::new("context", 64, 0, 16_384, "tokens in the cache before this one"),
        ProgramSetting::new("tile", 32, 1, 16_384, "rows and columns of a weight tile; divides heads·dim and ffn"),
    ],
    fault: false,
    build,
};

/// Tiles along one side of a weight matrix: a column of them is a scope.
const MOST_TILES: usize = 128;
/// Elements of the weights together, and of one cache: 128 MiB.
const MOST_ELEMENTS: usize = 1 << 25;
/// Bytes of what passes between stages, which ring 1 holds at once. Half of a default heap.
const MOST_PASSED: usize = 32 << 20;

#[derive(Clone, Copy)]
struct LayerSizes {
    batch: usize,
    heads: usize,
    dim: usize,
    ffn: usize,
    context: usize,
    tile: usize,
}

impl LayerSizes {
    fn hidden(&self) -> usize {
        self.heads * self.dim
    }

    /// Tokens that attention sees: the cached ones and the new one.
    fn tokens(&self) -> usize {
        self.context + 1
    }

    fn cache_len(&self) -> usize {
        self.batch * self.heads * self.tokens() * self.dim
    }

    fn check(&self) -> Result<()> {
        let (hidden, ffn, tile) = (self.hidden(), self.ffn, self.tile);
        if !hidden.is_multiple_of(tile) || !ffn.is_multiple_of(tile) {
            return Err(Error::invalid(format!(
                "Tiles of {tile} do not divide both the width {hidden} (heads·dim) and ffn = {ffn}. The last tiles would be smaller. Choose a common divisor."
            )));
        }
        if hidden.max(ffn) / tile > MOST_TILES {
            return Err(Error::invalid(format!(
                "Tiles of {tile} make {} of a side of {}. That is more than {MOST_TILES}. Make tile at least {}.",
                hidden.max(ffn) / tile,
                hidden.max(ffn),
                hidden.max(ffn).div_ceil(MOST_TILES)
            )));
        }
        let weights = 4 * hidden * hidden + 3 * hidden * ffn;
        let passed = self.batch * (7 * hidden + 2 * ffn) * size_of::<f32>();
        if weights.max(self.cache_len()) > MOST_ELEMENTS || passed > MOST_PASSED {
            return Err(Error::invalid(format!(
                "The weights would be {weights} elements, each cache {}, and {passed} bytes would pass between the stages. The most are {MOST_ELEMENTS}, {MOST_ELEMENTS} and {MOST_PASSED}. Make heads, dim, ffn, context or batch smaller.",
                self.cache_len()
            )));
        }
        Ok(())
    }
}

/// Input and weights, in the order of their noise streams.
struct Data {
    x: Vec<f32>,
    gains: [Vec<f32>; 2],
    /// Query, key, value and output projection.
    attention: [Vec<f32>; 4],
    /// Gate, up and down projection.
    mlp: [Vec<f32>; 3],
    /// Keys and values, with room for the new token.
    caches: [Vec<f32>; 2],
}

impl Data {
    fn new(sizes: &LayerSizes) -> Self {
        let (hidden, ffn) = (sizes.hidden(), sizes.ffn);
        // With weights of this size a projection keeps the size of what it is given.
        let scale = |inputs: usize| (3.0 / inputs as f32).sqrt();
        let square = |stream| Noise::vec(stream, hidden * hidden, scale(hidden));
        let gain = |stream| Noise::vec(stream, hidden, 0.25).into_iter().map(|x| 1.0 + x).collect();
        Self {
            x: Noise::vec(0, sizes.batch * hidden, 1.0),
            gains: [gain(1), gain(2)],
            attention: [square(3), square(4), square(5), square(6)],
            mlp: [
                Noise::vec(7, hidden * ffn, scale(hidden)),
                Noise::vec(8, hidden * ffn, scale(hidden)),
                Noise::vec(9, ffn * hidden, scale(ffn)),
            ],
            caches: [10, 11].map(|stream| cache(sizes, stream)),
        }
    }
}

/// Keys or values of all sequences and heads; the place of the new token is NaN, so that it must be written.
fn cache(sizes: &LayerSizes, stream: u64) -> Vec<f32> {
    let mut out = Noise::vec(stream, sizes.cache_len(), 1.0);
    for head in out.chunks_exact_mut(sizes.tokens() * sizes.dim) {
        head[sizes.context * sizes.dim..].fill(f32::NAN);
    }
    out
}

struct DecodeLayer {
    sizes: LayerSizes,
    kernels: DecodeKernels,
    x: SharedBuffer<f32>,
    gains: [SharedBuffer<f32>; 2],
    attention: [SharedBuffer<f32>; 4],
    mlp: [SharedBuffer<f32>; 3],
    caches: [SharedBuffer<f32>; 2],
    y: SharedBuffer<f32>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let get = |key| settings.get(key);
    let sizes = LayerSizes {
        batch: get("batch"),
        heads: get("heads"),
        dim: get("dim"),
        ffn: get("ffn"),
        context: get("context"),
        tile: get("tile"),
    };
    sizes.check()?;
    let data = Data::new(&sizes);
    Ok(Box::new(DecodeLayer {
        sizes,
        kernels: DecodeKernels::register(device),
        x: SharedBuffer::new(data.x),
        gains: data.gains.map(SharedBuffer::new),
        attention: data.attention.map(SharedBuffer::new),
        mlp: data.mlp.map(SharedBuffer::new),
        caches: data.caches.map(SharedBuffer::new),
        y: SharedBuffer::new(vec![0.0; sizes.batch * sizes.hidden()]),
    }))
}

impl DecodeLayer {
    /// `to` += `from` · `weights`, a scope per column of tiles.
    fn project(
        &self,
        o: &mut Orchestrator<'_, '_>,
        from: &Tensor<'_, f32>,
        weights: &Tensor<'_, f32>,
        to: &Tensor<'_, f32>,
    ) -> Result<()> {
        let (batch, tile) = (self.sizes.batch, self.sizes.tile);
        let (deep, wide) = (weights.shape()[0] as usize / tile, weights.shape()[1] as usize / tile);
        o.scope(|o| {
            for column in 0..wide {
                let to = to.tile([0, column], [batch, tile])?;
                o.scope(|o| {
                    for k in 0..deep {
                        let from = from.tile([0, k], [batch, tile])?;
                        let weights = weights.tile([k, column], [tile, tile])?;
                        o.submit(&self.kernels.project, (input(&from), input(&weights), inout(&to)))?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }

    /// Puts the new keys, or values, of every sequence at the end of its cache.
    fn append(&self, o: &mut Orchestrator<'_, '_>, new: &Tensor<'_, f32>, cache: &Tensor<'_, f32>) -> Result<()> {
        let LayerSizes { batch, heads, dim, context, .. } = self.sizes;
        for sequence in 0..batch {
            let new = new.tile([sequence, 0], [1, heads * dim])?;
            let place = cache.slice(0, sequence..sequence + 1)?.slice(2, context..context + 1)?;
            o.submit(&self.kernels.append, (input(&new), output_existing(&place)))?;
        }
        Ok(())
    }

    /// Attention of one sequence, a scope per head.
    fn attend(
        &self,
        o: &mut Orchestrator<'_, '_>,
        sequence: usize,
        query: &Tensor<'_, f32>,
        caches: [&Tensor<'_, f32>; 2],
        out: &Tensor<'_, f32>,
    ) -> Result<()> {
        let LayerSizes { heads, dim, .. } = self.sizes;
        let tokens = self.sizes.tokens();
        let scale = 1.0 / (dim as f32).sqrt();
        for head in 0..heads {
            let (query, out) = (query.tile([sequence, head], [1, dim])?, out.tile([sequence, head], [1, dim])?);
            let [keys, values] = caches.map(|cache| cache.tile([sequence, head, 0, 0], [1, 1, tokens, dim]));
            let (keys, values) = (keys?, values?);
            o.scope(|o| {
                let score = (input(&query), input(&keys), scalar(scale), output([1, tokens]));
                let (.., scores) = o.submit(&self.kernels.score, score)?;
                o.submit(&self.kernels.softmax, (inout(&scores),))?;
                o.submit(&self.kernels.weigh, (input(&scores), input(&values), output_existing(&out)))
            })?;
        }
        Ok(())
    }

    /// x + attention · Wo.
    fn attention<'s>(&self, o: &mut Orchestrator<'s, '_>, x: &Tensor<'_, f32>) -> Result<Tensor<'s, f32>> {
        let LayerSizes { batch, heads, dim, .. } = self.sizes;
        let (hidden, kernels) = (self.sizes.hidden(), &self.kernels);
        let gain = o.share(&self.gains[0], [hidden])?;
        let (.., normed) = o.submit(&kernels.norm, (input(x), input(&gain), output([batch, hidden])))?;
        let mut projected = Vec::with_capacity(3);
        for weights in &self.attention[..3] {
            let weights = o.share(weights, [hidden, hidden])?;
            let (to,) = o.submit(&kernels.zero, (output([batch, hidden]),))?;
            self.project(o, &normed, &weights, &to)?;
            projected.push(to);
        }
        let shape = [batch, heads, self.sizes.tokens(), dim];
        let (keys, values) = (o.share(&self.caches[0], shape)?, o.share(&self.caches[1], shape)?);
        self.append(o, &projected[1], &keys)?;
        self.append(o, &projected[2], &values)?;
        let (attended,) = o.submit(&kernels.zero, (output([batch, hidden]),))?;
        for sequence in 0..batch {
            o.scope(|o| self.attend(o, sequence, &projected[0], [&keys, &values], &attended))?;
        }
        let (_, middle) = o.submit(&kernels.copy, (input(x), output([batch, hidden])))?;
        let weights = o.share(&self.attention[3], [hidden, hidden])?;
        self.project(o, &attended, &weights, &middle)?;
        Ok(middle)
    }

    /// middle + (silu(inner · Wg) · (inner · Wu)) · Wd.
    fn mlp(&self, o: &mut Orchestrator<'_, '_>, middle: &Tensor<'_, f32>) -> Result<()> {
        let LayerSizes { batch, ffn, tile, .. } = self.sizes;
        let (hidden, kernels) = (self.sizes.hidden(), &self.kernels);
        let gain = o.share(&self.gains[1], [hidden])?;
        let (.., inner) = o.submit(&kernels.norm, (input(middle), input(&gain), output([batch, hidden])))?;
        let [gate, up, down] = &self.mlp;
        let (gate, up) = (o.share(gate, [hidden, ffn])?, o.share(up, [hidden, ffn])?);
        let down = o.share(down, [ffn, hidden])?;
        let (gated,) = o.submit(&kernels.zero, (output([batch, ffn]),))?;
        let (raised,) = o.submit(&kernels.zero, (output([batch, ffn]),))?;
        self.project(o, &inner, &gate, &gated)?;
        self.project(o, &inner, &up, &raised)?;
        o.scope(|o| {
            for column in 0..ffn / tile {
                let (gated, raised) =
                    (gated.tile([0, column], [batch, tile])?, raised.tile([0, column], [batch, tile])?);
                o.submit(&kernels.silu, (input(&gated), inout(&raised)))?;
            }
            Ok(())
        })?;
        let y = o.share(&self.y, [batch, hidden])?;
        o.submit(&kernels.copy, (input(middle), output_existing(&y)))?;
        self.project(o, &raised, &down, &y)
    }

    /// The largest error that rounding explains, relative to the largest element. Every stage is a sum of `hidden`,
    /// `ffn`, `dim` or `tokens` terms, and its input and output are of size about 1. The stages in between (norm,
    /// softmax, SiLU, products) enlarge an error by a small factor at most. There are five sums in a row, and with
    /// one such factor of up to 2 that makes ten.
    fn tolerance(&self) -> f64 {
        let longest = self.sizes.hidden().max(self.sizes.ffn).max(self.sizes.tokens());
        10.0 * roundings(longest) * UNIT_F32
    }
}

impl Instance for DecodeLayer {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        o.scope(|o| {
            let x = o.share(&self.x, [self.sizes.batch, self.sizes.hidden()])?;
            let middle = self.attention(o, &x)?;
            self.mlp(o, &middle)
        })
    }

    fn buffers(&self) -> Buffers<'_> {
        let inputs = self.gains.iter().chain(&self.attention).chain(&self.mlp);
        let all = inputs.chain(&self.caches).chain([&self.x, &self.y]);
        all.map(|buffer| buffer as &dyn DeviceBuffer).collect()
    }

    fn reset(&self) -> Result<()> {
        self.y.with(|y| y.fill(0.0))?;
        for (buffer, stream) in self.caches.iter().zip([10, 11]) {
            buffer.with(|data| data.copy_from_slice(&cache(&self.sizes, stream)))?;
        }
        Ok(())
    }

    fn verify(&self) -> Result<Verdict> {
        let golden = golden::layer(&self.sizes, &Data::new(&self.sizes));
        let size = golden.y.iter().fold(1.0f64, |size, y| size.max(y.abs()));
        let tolerance = self.tolerance() * size;
        let y = Verdict::close(&self.y.to_vec()?, &golden.y, |_| tolerance);
        let keys = Verdict::close(&self.caches[0].to_vec()?, &golden.caches[0], |_| tolerance);
        let values = Verdict::close(&self.caches[1].to_vec()?, &golden.caches[1], |_| tolerance);
        let name = |what: &str, v: Verdict| Verdict { detail: format!("{what}: {}", v.detail), ..v };
        Ok(name("y", y).and(name("keys", keys)).and(name("values", values)))
    }

    fn spoil(&self) -> Result<()> {
        // The tolerance is relative to the largest element, and that is below 16.
        let spoilt = 16.0 * self.tolerance();
        self.y.with(|y| y[y.len() / 2] += spoilt as f32)
    }
}
