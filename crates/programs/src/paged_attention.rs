//! `paged-attention`: one decode step of attention over a paged cache of keys and values.
//!
//! Sequences have different lengths. Their keys and values lie in pages of a pool, in the order of a block table. Per
//! sequence and head: for every page QK → softmax → PV, and an update of running maximum, sum and weighted sum, which
//! makes the pages a chain; at the end a division. A group of query heads shares a head of keys and values.

use crate::dense::{add_scaled, dot};
use crate::noise::Noise;
use crate::verdict::{UNIT_F32, roundings};
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    CoreClass, Device, Error, In, InOut, Kernel, Orchestrator, Out, Result, SharedBuffer, Tensor, inout, input, output,
    output_existing, scalar,
};
use plimsoll_runtime::{Read, ReadWrite, Value, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "paged-attention",
    about: "decode attention over a paged KV cache, online softmax per page",
    params: &[
        ProgramSetting::new("batch", 4, 1, 256, "sequences"),
        ProgramSetting::new("heads", 4, 1, 128, "heads of keys and values"),
        ProgramSetting::new("group", 4, 1, 64, "query heads that share one of them"),
        ProgramSetting::new("dim", 64, 1, 512, "elements of a head"),
        ProgramSetting::new("block", 32, 1, 4096, "tokens of a page"),
        ProgramSetting::new("tokens", 500, 1, 65_536, "tokens of the longest sequence; the shortest has about half"),
    ],
    fault: false,
    build,
};

/// Elements of the pool of keys, and of that of values: 128 MiB each.
const MOST_ELEMENTS: usize = 1 << 25;

#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    group: usize,
    dim: usize,
    block: usize,
    tokens: usize,
}

impl Sizes {
    /// Tokens of a sequence: all but the first are shorter, so that last pages are partly filled.
    fn tokens_of(&self, sequence: usize) -> usize {
        self.tokens - sequence * self.tokens / (2 * self.batch)
    }

    fn pages_of(&self, sequence: usize) -> usize {
        self.tokens_of(sequence).div_ceil(self.block)
    }

    fn pages(&self) -> usize {
        (0..self.batch).map(|sequence| self.pages_of(sequence)).sum()
    }

    fn pool_len(&self) -> usize {
        self.pages() * self.heads * self.block * self.dim
    }

    fn query_len(&self) -> usize {
        self.batch * self.heads * self.group * self.dim
    }

    fn scale(&self) -> f64 {
        1.0 / (self.dim as f64).sqrt()
    }
}

struct Kernels {
    begin: Kernel<(Write<f32>, Write<f32>, Write<f32>)>,
    qk: Kernel<(Read<f32>, Read<f32>, Value<f32>, Write<f32>)>,
    softmax: Kernel<(Read<f32>, Write<f32>, Write<f32>, Write<f32>)>,
    pv: Kernel<(Read<f32>, Read<f32>, Write<f32>)>,
    update: Kernel<(Read<f32>, Read<f32>, Read<f32>, ReadWrite<f32>, ReadWrite<f32>, ReadWrite<f32>)>,
    divide: Kernel<(Read<f32>, ReadWrite<f32>)>,
}

struct PagedAttention {
    sizes: Sizes,
    kernels: Kernels,
    /// The pages of every sequence, in order.
    table: Vec<Vec<usize>>,
    queries: SharedBuffer<f32>,
    keys: SharedBuffer<f32>,
    values: SharedBuffer<f32>,
    out: SharedBuffer<f32>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let get = |key| settings.get(key);
    let sizes = Sizes {
        batch: get("batch"),
        heads: get("heads"),
        group: get("group"),
        dim: get("dim"),
        block: get("block"),
        tokens: get("tokens"),
    };
    if sizes.pool_len().max(sizes.query_len()) > MOST_ELEMENTS {
        return Err(Error::invalid(format!(
            "The keys would be {} elements and the queries {}. The most is {MOST_ELEMENTS}. Make batch, heads, group, dim or tokens smaller.",
            sizes.pool_len(),
            sizes.query_len()
        )));
    }
    let mut pages = Noise::shuffled(3, sizes.pages()).into_iter();
    let table = (0..sizes.batch).map(|sequence| pages.by_ref().take(sizes.pages_of(sequence)).collect()).collect();
    let kernels = Kernels {
        begin: device.kernel_on(CoreClass::Aiv, "begin", begin),
        qk: device.kernel_on(CoreClass::Aic, "qk", qk),
        softmax: device.kernel_on(CoreClass::Aiv, "softmax", softmax),
        pv: device.kernel_on(CoreClass::Aic, "pv", pv),
        update: device.kernel_on(CoreClass::Aiv, "update", update),
        divide: device.kernel_on(CoreClass::Aiv, "divide", divide),
    };
    Ok(Box::new(PagedAttention {
        sizes,
        kernels,
        table,
        queries: SharedBuffer::new(Noise::vec(0, sizes.query_len(), 1.0)),
        keys: SharedBuffer::new(Noise::vec(1, sizes.pool_len(), 1.0)),
        values: SharedBuffer::new(Noise::vec(2, sizes.pool_len(), 1.0)),
        out: SharedBuffer::new(vec![0.0; sizes.query_len()]),
    }))
}

/// Nothing seen yet.
fn begin(mut most: Out<f32>, mut sum: Out<f32>, mut out: Out<f32>) {
    most.fill(f32::NEG_INFINITY);
    sum.fill(0.0);
    out.fill(0.0);
}

/// Scores of a page: one row per query head, one column per token.
fn qk(queries: In<f32>, keys: In<f32>, scale: f32, mut scores: Out<f32>) {
    for head in 0..scores.rows() {
        let query = queries.row(head);
        for (token, score) in scores.row_mut(head).iter_mut().enumerate() {
            *score = scale * dot(query, keys.row(token));
        }
    }
}

/// Weights of a page relative to its own maximum, the maximum, and their sum.
fn softmax(scores: In<f32>, mut weights: Out<f32>, mut most: Out<f32>, mut sum: Out<f32>) {
    for head in 0..scores.rows() {
        let scores = scores.row(head);
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let row = weights.row_mut(head);
        row.iter_mut().zip(scores).for_each(|(weight, score)| *weight = (score - largest).exp());
        sum[[head]] = row.iter().sum();
        most[[head]] = largest;
    }
}

/// The weighted sum of a page's values.
fn pv(weights: In<f32>, values: In<f32>, mut out: Out<f32>) {
    out.fill(0.0);
    for head in 0..weights.rows() {
        for (token, &weight) in weights.row(head).iter().enumerate() {
            add_scaled(out.row_mut(head), weight, values.row(token));
        }
    }
}

/// Adds a page to what was seen so far; both are brought to the larger maximum first.
fn update(
    page_most: In<f32>,
    page_sum: In<f32>,
    page: In<f32>,
    mut most: InOut<f32>,
    mut sum: InOut<f32>,
    mut out: InOut<f32>,
) {
    for head in 0..page.rows() {
        let largest = most[[head]].max(page_most[[head]]);
        let (old, new) = ((most[[head]] - largest).exp(), (page_most[[head]] - largest).exp());
        most[[head]] = largest;
        sum[[head]] = old * sum[[head]] + new * page_sum[[head]];
        for (out, page) in out.row_mut(head).iter_mut().zip(page.row(head)) {
            *out = old * *out + new * page;
        }
    }
}

fn divide(sum: In<f32>, mut out: InOut<f32>) {
    for head in 0..out.rows() {
        let sum = sum[[head]];
        out.row_mut(head).iter_mut().for_each(|out| *out /= sum);
    }
}

/// The four tensors of a run.
struct Tensors<'s> {
    queries: Tensor<'s, f32>,
    keys: Tensor<'s, f32>,
    values: Tensor<'s, f32>,
    out: Tensor<'s, f32>,
}

/// What is carried from page to page.
struct Running<'s, 'r> {
    most: Tensor<'s, f32>,
    sum: Tensor<'s, f32>,
    out: Tensor<'r, f32>,
}

impl PagedAttention {
    /// All pages of one sequence and head.
    fn head(&self, o: &mut Orchestrator<'_, '_>, tensors: &Tensors<'_>, sequence: usize, head: usize) -> Result<()> {
        let Sizes { group, dim, block, .. } = self.sizes;
        let query = tensors.queries.tile([sequence, head, 0, 0], [1, 1, group, dim])?;
        let out = tensors.out.tile([sequence, head, 0, 0], [1, 1, group, dim])?;
        let begun = o.submit(&self.kernels.begin, (output([group]), output([group]), output_existing(&out)))?;
        let running = Running { most: begun.0, sum: begun.1, out };
        for (index, &page) in self.table[sequence].iter().enumerate() {
            let filled = block.min(self.sizes.tokens_of(sequence) - index * block);
            let keys = tensors.keys.tile([page, head, 0, 0], [1, 1, block, dim])?.slice(2, 0..filled)?;
            let values = tensors.values.tile([page, head, 0, 0], [1, 1, block, dim])?.slice(2, 0..filled)?;
            o.scope(|o| self.page(o, &query, &keys, &values, &running, filled))?;
        }
        o.submit(&self.kernels.divide, (input(&running.sum), inout(&running.out)))?;
        Ok(())
    }

    /// One page: QK → softmax → PV → update.
    fn page(
        &self,
        o: &mut Orchestrator<'_, '_>,
        query: &Tensor<'_, f32>,
        keys: &Tensor<'_, f32>,
        values: &Tensor<'_, f32>,
        running: &Running<'_, '_>,
        filled: usize,
    ) -> Result<()> {
        let Sizes { group, dim, .. } = self.sizes;
        let scale = scalar(self.sizes.scale() as f32);
        let kernels = &self.kernels;
        let (.., scores) = o.submit(&kernels.qk, (input(query), input(keys), scale, output([group, filled])))?;
        let (_, weights, most, sum) =
            o.submit(&kernels.softmax, (input(&scores), output([group, filled]), output([group]), output([group])))?;
        let (.., page) = o.submit(&kernels.pv, (input(&weights), input(values), output([group, dim])))?;
        let seen = (inout(&running.most), inout(&running.sum), inout(&running.out));
        o.submit(&kernels.update, (input(&most), input(&sum), input(&page), seen.0, seen.1, seen.2))?;
        Ok(())
    }

    /// The largest error that rounding explains, with inputs of at most 1. A score is a sum of `dim` products over
    /// √dim, so the sum of their sizes is at most √dim. Its error changes a weight, relatively, by as much, and the
    /// division by the sum of weights at most doubles that. The sums over tokens and the updates, six operations per
    /// page, add theirs. The result is an average of values of at most 1, so these relative errors are absolute ones.
    fn tolerance(&self) -> f64 {
        let Sizes { dim, block, tokens, .. } = self.sizes;
        let score = (dim as f64).sqrt() * roundings(dim);
        (2.0 * score + 2.0 * roundings(tokens) + 6.0 * roundings(tokens.div_ceil(block))) * UNIT_F32
    }

    /// Plain attention of one query head over gathered keys and values.
    fn golden_head(&self, data: &[Vec<f32>; 3], sequence: usize, head: usize, member: usize) -> Vec<f64> {
        let Sizes { heads, group, dim, block, .. } = self.sizes;
        let [queries, keys, values] = data;
        let query = &queries[((sequence * heads + head) * group + member) * dim..][..dim];
        let row = |token: usize| {
            let page = self.table[sequence][token / block];
            ((page * heads + head) * block + token % block) * dim
        };
        let tokens = self.sizes.tokens_of(sequence);
        let scores: Vec<f64> = (0..tokens)
            .map(|token| {
                let key = &keys[row(token)..][..dim];
                let mut sum = 0.0;
                for d in 0..dim {
                    sum += f64::from(query[d]) * f64::from(key[d]);
                }
                sum * self.sizes.scale()
            })
            .collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let mut out = vec![0.0; dim];
        for token in 0..tokens {
            for d in 0..dim {
                out[d] += weights[token] / sum * f64::from(values[row(token) + d]);
            }
        }
        out
    }
}

impl Instance for PagedAttention {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let Sizes { batch, heads, group, dim, block, .. } = self.sizes;
        let pool = [self.sizes.pages(), heads, block, dim];
        let tensors = Tensors {
            queries: o.share(&self.queries, [batch, heads, group, dim])?,
            keys: o.share(&self.keys, pool)?,
            values: o.share(&self.values, pool)?,
            out: o.share(&self.out, [batch, heads, group, dim])?,
        };
        for sequence in 0..batch {
            for head in 0..heads {
                o.scope(|o| self.head(o, &tensors, sequence, head))?;
            }
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.queries, &self.keys, &self.values, &self.out]
    }

    fn reset(&self) -> Result<()> {
        self.out.with(|out| out.fill(0.0))
    }

    fn verify(&self) -> Result<Verdict> {
        let Sizes { batch, heads, group, .. } = self.sizes;
        let pool = self.sizes.pool_len();
        let data =
            [(0, self.sizes.query_len()), (1, pool), (2, pool)].map(|(stream, len)| Noise::vec(stream, len, 1.0));
        let mut golden = Vec::with_capacity(self.sizes.query_len());
        for sequence in 0..batch {
            for head in 0..heads {
                for member in 0..group {
                    golden.extend(self.golden_head(&data, sequence, head, member));
                }
            }
        }
        let tolerance = self.tolerance();
        Ok(Verdict::close(&self.out.to_vec()?, &golden, |_| tolerance))
    }

    fn spoil(&self) -> Result<()> {
        let spoilt = 3.0 * self.tolerance();
        self.out.with(|out| out[out.len() / 2] += spoilt as f32)
    }
}
