//! `sliding`: means over a moving window of a stream that passes through a ring buffer.
//!
//! A task writes the next chunk of the stream over the oldest one; another reads a window that ends with it, which covers
//! several chunks and begins within one. So windows overlap each other and no chunk covers a window.

use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    CoreClass, Device, Error, In, Kernel, Orchestrator, Out, Result, SharedBuffer, Tensor, input, output_existing,
    scalar,
};
use plimsoll_runtime::{Read, Value, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "sliding",
    about: "sums over a moving window of a stream in a ring buffer",
    params: &[
        ProgramSetting::new("chunk", 64, 1, 65_536, "elements that arrive at a time"),
        ProgramSetting::new("window", 200, 1, 65_536, "elements of the window; fits into all chunks but one"),
        ProgramSetting::new("ring", 8, 2, 1024, "chunks in the ring buffer"),
        ProgramSetting::new("steps", 300, 1, 1_000_000, "chunks that arrive"),
        ProgramSetting::choice("flat", &["false", "true"], "whether all steps share one scope"),
    ],
    fault: false,
    build,
};

/// Chunks that share a scope at most, and chunks that all windows of a scope cover: each is a dependency.
const STEPS_OF_A_SCOPE: usize = 256;
const COVERED_IN_A_SCOPE: usize = 4096;

struct Sliding {
    chunk: usize,
    window: usize,
    ring: usize,
    steps: usize,
    flat: bool,
    arrive: Kernel<(Value<i64>, Write<i64>)>,
    sum: Kernel<(Read<i64>, Write<i64>)>,
    stream: SharedBuffer<i64>,
    sums: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (chunk, window, ring) = (settings.get("chunk"), settings.get("window"), settings.get("ring"));
    if window > chunk * (ring - 1) {
        return Err(Error::invalid(format!(
            "A window of {window} does not fit into {} chunks of {chunk}. The chunk that arrives next would overwrite it. Make window smaller, or chunk or ring larger.",
            ring - 1
        )));
    }
    let arrive = device.kernel_on(CoreClass::Aiv, "arrive", |first: i64, mut chunk: Out<i64>| {
        chunk.as_mut_slice().into_iter().flatten().zip(first..).for_each(|(element, at)| *element = element_at(at));
    });
    let sum = device.kernel_on(CoreClass::Aiv, "sum", |window: In<i64>, mut sum: Out<i64>| {
        sum[[0]] = window.as_slice().into_iter().flatten().sum();
    });
    let steps = settings.get("steps");
    let stream = SharedBuffer::new(vec![0; chunk * ring]);
    let sums = SharedBuffer::new(vec![0; steps]);
    let flat = settings.get("flat") == 1;
    Ok(Box::new(Sliding { chunk, window, ring, steps, flat, arrive, sum, stream, sums }))
}

/// The element of the stream with this number.
fn element_at(at: i64) -> i64 {
    at.wrapping_mul(7919) % 10_007
}

impl Sliding {
    /// Where the window that ends with a chunk begins in the ring buffer, if it lies in one piece and has filled up.
    fn window_of(&self, step: usize) -> Option<usize> {
        let end = (step % self.ring + 1) * self.chunk;
        end.checked_sub(self.window)
    }

    fn steps(&self, o: &mut Orchestrator<'_, '_>, stream: &Both<'_>, from: usize, to: usize) -> Result<()> {
        for step in from..to {
            let chunk = stream.stream.tile([step % self.ring], [self.chunk])?;
            let first = (step * self.chunk) as i64;
            o.submit(&self.arrive, (scalar(first), output_existing(&chunk)))?;
            if let Some(begin) = self.window_of(step) {
                let window = stream.stream.slice(0, begin..begin + self.window)?;
                let sum = stream.sums.tile([step], [1])?;
                o.submit(&self.sum, (input(&window), output_existing(&sum)))?;
            }
        }
        Ok(())
    }
}

struct Both<'s> {
    stream: Tensor<'s, i64>,
    sums: Tensor<'s, i64>,
}

impl Instance for Sliding {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let stream = o.share(&self.stream, [self.chunk * self.ring])?;
        let both = Both { stream, sums: o.share(&self.sums, [self.steps])? };
        let covered = self.window / self.chunk + 2;
        let few = (COVERED_IN_A_SCOPE / covered).clamp(1, STEPS_OF_A_SCOPE);
        let at_a_time = if self.flat { self.steps } else { few };
        for from in (0..self.steps).step_by(at_a_time) {
            o.scope(|o| self.steps(o, &both, from, (from + at_a_time).min(self.steps)))?;
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.stream, &self.sums]
    }

    fn reset(&self) -> Result<()> {
        self.stream.with(|stream| stream.fill(0))?;
        self.sums.with(|sums| sums.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        let golden = |step: usize| {
            let end = ((step + 1) * self.chunk) as i64;
            // Before the first lap is complete, the window reaches no further back than the stream does.
            self.window_of(step).map_or(0, |_| (end - self.window as i64..end).map(element_at).sum())
        };
        let golden: Vec<i64> = (0..self.steps).map(golden).collect();
        // Whole numbers: nothing is rounded.
        Ok(Verdict::equal(&self.sums.to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        self.sums.with(|sums| sums[self.steps / 2] += 1)
    }
}
