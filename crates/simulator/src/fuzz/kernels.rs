//! The kernels of random programs: each does what the oracle does, and some take their time or do not end as others do.

use super::oracle::{fold, mix};
use super::program::{indices, planned};
use crate::shapes::{Meetings, SimulatedShape};
use plimsoll_runtime::{
    Block, BlockKernel, CancelToken, CoreClass, Device, In, InList, InOut, InOutTile, Kernel, KernelError, Out,
    PartInOut, Read, ReadList, ReadWrite, ShapeLimits, Value, Write,
};
use std::ops::{Index, IndexMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type K = Value<i64>;
type MixTwo = (Read<i64>, Read<i64>, ReadWrite<i64>, K);
type MixParts = (Read<i64>, ReadWrite<i64>, K);
type Done = Result<(), KernelError>;

/// What errors and panics that are planned say.
pub const AS_PLANNED: &str = "as planned";

/// The kernels, registered with a device.
pub(super) struct FuzzKernels {
    pub(super) bump: Kernel<(ReadWrite<i64>, K)>,
    pub(super) mix: Kernel<(Read<i64>, ReadWrite<i64>, K)>,
    pub(super) mix_two: Kernel<MixTwo>,
    pub(super) mix_list: Kernel<(ReadList<i64>, ReadWrite<i64>, K)>,
    pub(super) over: Kernel<(Read<i64>, Write<i64>, K)>,
    pub(super) fill: Kernel<(Write<i64>, K)>,
    pub(super) bump_tile: BlockKernel<(ReadWrite<i64>, K)>,
    /// Its blocks wait for each other where they are threads.
    pub(super) bump_together: BlockKernel<(ReadWrite<i64>, K)>,
    /// The first reads and tells the second, which writes.
    pub(super) mix_parts: [BlockKernel<MixParts>; 2],
    token: Arc<Mutex<CancelToken>>,
    limits: ShapeLimits,
}

/// What a kernel does first: some take their time, so that others overtake them, and some end here.
fn begin(k: i64, token: &Mutex<CancelToken>) -> Done {
    match k {
        planned::FAILURE => return Err(AS_PLANNED.into()),
        planned::PANIC => panic!("{AS_PLANNED}"),
        planned::CANCEL => token.lock().unwrap_or_else(PoisonError::into_inner).cancel(),
        _ => {}
    }
    match k.rem_euclid(23) {
        0 => std::thread::yield_now(),
        1 => (0..3000).for_each(|_| std::hint::spin_loop()),
        2 => std::thread::sleep(Duration::from_micros(20)),
        _ => {}
    }
    Ok(())
}

/// A kernel's view with up to three dimensions.
trait Strided: Index<[usize; 1], Output = i64> + Index<[usize; 2], Output = i64> + Index<[usize; 3], Output = i64> {
    fn extents(&self) -> Vec<usize>;

    fn get(&self, at: &[usize]) -> i64 {
        match *at {
            [i] => self[[i]],
            [i, j] => self[[i, j]],
            [i, j, k] => self[[i, j, k]],
            _ => unreachable!("programs have up to three dimensions"),
        }
    }

    fn fold(&self) -> i64 {
        fold(indices(&self.extents()).map(|at| self.get(&at)))
    }
}

trait StridedMut: Strided + IndexMut<[usize; 1]> + IndexMut<[usize; 2]> + IndexMut<[usize; 3]> {
    fn change(&mut self, value: impl Fn(i64, usize) -> i64) {
        for (place, at) in indices(&self.extents()).enumerate() {
            let new = value(self.get(&at), place);
            match *at {
                [i] => self[[i]] = new,
                [i, j] => self[[i, j]] = new,
                [i, j, k] => self[[i, j, k]] = new,
                _ => unreachable!("programs have up to three dimensions"),
            }
        }
    }
}

macro_rules! strided {
    ($($view:ident)*) => {
        $(impl Strided for $view<'_, i64> {
            fn extents(&self) -> Vec<usize> {
                self.shape().iter().map(|&extent| extent as usize).collect()
            }
        })*
    };
}

strided!(In InOut Out);
impl StridedMut for InOut<'_, i64> {}
impl StridedMut for Out<'_, i64> {}

/// The place of a tile's first element among those of the whole view.
fn first_place(tile: &InOutTile<'_, i64>) -> usize {
    tile.first_row() * tile.extents()[1..].iter().product::<usize>()
}

/// The kernels of a mixed task, each of which does `begin` first.
fn register_parts<B>(device: &mut Device, begin: [B; 2]) -> [BlockKernel<MixParts>; 2]
where
    B: Fn(i64) -> Done + Send + Sync + 'static,
{
    let [begin_0, begin_1] = begin;
    let reads = move |block: Block, a: In<i64>, _: PartInOut<i64, 1>, k: i64| -> Done {
        begin_0(k)?;
        Ok(block.push(1, a.fold())?)
    };
    let writes = move |block: Block, _: In<i64>, mut x: PartInOut<i64, 1>, k: i64| -> Done {
        begin_1(k)?;
        let with = block.pop::<i64>(0)?;
        let x = x.own().ok_or("the second part writes")?;
        let first = first_place(x);
        x.change(|old, place| mix(old, with, k, first + place));
        Ok(())
    };
    [
        device.block_kernel_on(CoreClass::Aic, "mix_part_0", reads),
        device.block_kernel_on(CoreClass::Aiv, "mix_part_1", writes),
    ]
}

impl FuzzKernels {
    /// Registers them. The blocks of a cohort wait for each other if they `meet`, which they can where they are threads.
    pub(super) fn register(device: &mut Device, meet: bool) -> Self {
        let (limits, meetings) = (device.limits(), meet.then(Meetings::default));
        let token = Arc::new(Mutex::new(CancelToken::new()));
        let begin = || {
            let token = Arc::clone(&token);
            move |k| begin(k, &token)
        };
        let [bump, mixes, two, list, over, fill, tile, together, part_0, part_1] = std::array::from_fn(|_| begin());
        Self {
            bump: device.kernel("bump", move |mut x: InOut<i64>, k: i64| -> Done {
                bump(k)?;
                x.change(|old, place| mix(old, 0, k, place));
                Ok(())
            }),
            mix: device.kernel("mix", move |a: In<i64>, mut x: InOut<i64>, k: i64| -> Done {
                mixes(k)?;
                let with = a.fold();
                x.change(|old, place| mix(old, with, k, place));
                Ok(())
            }),
            mix_two: device.kernel("mix_two", move |a: In<i64>, b: In<i64>, mut x: InOut<i64>, k: i64| -> Done {
                two(k)?;
                let with = mix(a.fold(), b.fold(), 0, 0);
                x.change(|old, place| mix(old, with, k, place));
                Ok(())
            }),
            mix_list: device.kernel("mix_list", move |parts: InList<i64>, mut x: InOut<i64>, k: i64| -> Done {
                list(k)?;
                let with = fold(parts.iter().map(|a| a.fold()));
                x.change(|old, place| mix(old, with, k, place));
                Ok(())
            }),
            over: device.kernel("over", move |a: In<i64>, mut x: Out<i64>, k: i64| -> Done {
                over(k)?;
                let with = a.fold();
                x.change(|_, place| mix(1, with, k, place));
                Ok(())
            }),
            fill: device.kernel("fill", move |mut x: Out<i64>, k: i64| -> Done {
                fill(k)?;
                x.change(|_, place| mix(2, 0, k, place));
                Ok(())
            }),
            bump_tile: device.block_kernel("bump_tile", move |_: Block, mut x: InOutTile<i64>, k: i64| -> Done {
                tile(k)?;
                let first = first_place(&x);
                x.change(|old, place| mix(old, 0, k, first + place));
                Ok(())
            }),
            bump_together: device.block_kernel("bump_together", {
                move |block: Block, mut x: InOutTile<i64>, k: i64| -> Done {
                    together(k)?;
                    if let Some(meetings) = &meetings {
                        meetings.meet(k.wrapping_mul(64).wrapping_add(block.count() as i64), block.count())?;
                    }
                    let first = first_place(&x);
                    x.change(|old, place| mix(old, 0, k, first + place));
                    Ok(())
                }
            }),
            mix_parts: register_parts(device, [part_0, part_1]),
            token,
            limits,
        }
    }

    /// How many blocks of a cohort that has `blocks` at most start together here.
    pub(super) fn cohort(&self, blocks: u32) -> u32 {
        SimulatedShape::cohort(blocks, self.limits.together(CoreClass::Any))
    }

    /// How many blocks of a cohort start together here, if they have parts and are `blocks` at most.
    pub(super) fn mixed_cohort(&self, blocks: u32) -> u32 {
        SimulatedShape::cohort(blocks, self.limits.mixed_together())
    }

    /// Gives the kernels the token that they cancel if they are told to.
    pub(super) fn cancel_with(&self, token: CancelToken) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }
}
