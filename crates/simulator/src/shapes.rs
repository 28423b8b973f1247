//! Tasks of random programs that are not ordinary, and their kernels. What such a task computes is what it would compute if it
//! were, or nothing: so the serial result is worked out without looking at how tasks are executed.

use crate::oracle::mix;
use crate::play::{gather, gather_list};
use crate::program::{BoxView, HOSTS, Target};
use plimsoll_runtime::{
    Block, BlockKernel, CoreClass, Device, InList, InOutTile, KernelError, OutTile, PartInOut, PartOut, PipeError,
    Random, ReadList, ReadWrite, Value, Write,
};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How a task is executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SimulatedShape {
    /// Once.
    Ordinary,
    /// In this many blocks.
    Blocks(u32),
    /// In blocks of two or three parts.
    Mixed(u32, usize),
    /// In blocks of one to three parts that start together: as many blocks as divide this number and can.
    Cohort(u32, usize),
    /// In blocks, if the element is zero, or if it is not.
    Predicated(u32, BoxView, bool),
    /// Not at all.
    Dummy,
}

impl SimulatedShape {
    /// Draws the shape of a task that writes `target`. `element` is some element that it may look at.
    pub fn draw(random: &mut Random, target: &Target, element: BoxView) -> Self {
        let (rows, existing) = match target {
            Target::Make { len, .. } => (*len, None),
            Target::Update(view) | Target::Replace(view) if view.tensor < HOSTS.len() => (view.rows.len(), Some(view)),
            Target::Update(view) | Target::Replace(view) => (view.columns.len(), Some(view)),
        };
        let divisors: Vec<usize> = (1..=rows).filter(|blocks| rows.is_multiple_of(*blocks)).collect();
        let blocks = divisors[random.below(divisors.len() as u64) as usize] as u32;
        match (random.below(12), existing) {
            (0 | 1, _) => Self::Blocks(blocks),
            (2, _) => Self::Mixed(blocks, random.between(2, 3) as usize),
            (3, Some(_)) => Self::Dummy,
            (6, _) => Self::Cohort(blocks, 1),
            (7, _) if random.once_in(2) => Self::Cohort(blocks, random.between(2, 3) as usize),
            (4 | 5, Some(target)) if !target.overlaps(&element) => Self::Predicated(blocks, element, random.once_in(2)),
            _ => Self::Ordinary,
        }
    }

    /// How many blocks of a cohort that has `blocks` at most start together where `most` can.
    pub fn cohort(blocks: u32, most: usize) -> u32 {
        let fits = |count: &u32| *count as usize <= most && blocks.is_multiple_of(*count);
        (1..=blocks).rev().find(fits).unwrap_or(1)
    }

    /// The element that decides whether the task is executed.
    pub fn predicate(&self) -> Option<&BoxView> {
        if let Self::Predicated(_, element, _) = self { Some(element) } else { None }
    }
}

type MakingTiles = BlockKernel<(Value<i64>, ReadList<i64>, Write<i64>)>;
type UpdatingTiles = BlockKernel<(Value<i64>, ReadList<i64>, ReadWrite<i64>)>;

/// The kernels of tasks in blocks, by core class, and of the parts of mixed tasks.
#[derive(Debug)]
pub struct TileKernels {
    pub(crate) make: [MakingTiles; 3],
    pub(crate) update: [UpdatingTiles; 3],
    pub(crate) make_parts: [MakingTiles; 3],
    pub(crate) update_parts: [UpdatingTiles; 3],
    /// Of tasks whose blocks start together.
    pub(crate) make_together: [MakingTiles; 3],
    pub(crate) update_together: [UpdatingTiles; 3],
}

/// Where the blocks of a cohort wait for each other, by the task's salt, if they are threads.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    arrived: Mutex<HashMap<i64, usize>>,
    changed: Condvar,
}

/// Far longer than any block is on its way: a block that waits for so long would wait for ever.
const NEVER_MET: Duration = Duration::from_secs(40);

impl Meetings {
    /// Waits until as many blocks of the task are here as it has. A task that is launched again meets again, and tasks of one
    /// salt that have as many blocks may meet as one.
    pub(crate) fn meet(&self, salt: i64, blocks: usize) -> Result<(), KernelError> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let place = arrived.entry(salt).or_default();
        *place += 1;
        let wanted = place.div_ceil(blocks) * blocks;
        self.changed.notify_all();
        while arrived[&salt] < wanted {
            let (after, waited) = self.changed.wait_timeout(arrived, NEVER_MET).unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() && after[&salt] < wanted {
                return Err(format!("{} of {blocks} blocks have started together", after[&salt] % blocks).into());
            }
            arrived = after;
        }
        Ok(())
    }
}

/// The places of a tile's elements among those of the whole: the first, and how many.
fn places(first_row: usize, shape: &[u32], len: usize) -> std::ops::Range<usize> {
    let row = len / shape.first().map_or(1, |&rows| rows as usize);
    first_row * row..first_row * row + len
}

fn write_tile(
    salt: i64,
    list: &InList<'_, i64>,
    out: &mut OutTile<'_, i64>,
    mut permit: impl FnMut(usize) -> Result<(), PipeError>,
) -> Result<(), KernelError> {
    let inputs = gather_list(list)?;
    let mut elements = places(out.first_row(), out.shape(), out.len());
    for row in 0..out.rows() {
        for value in out.row_mut(row) {
            let element = elements.next().ok_or("a tile has as many elements as places")?;
            permit(element)?;
            *value = mix(salt, &inputs, element, None);
        }
    }
    Ok(())
}

fn update_tile(
    salt: i64,
    list: &InList<'_, i64>,
    x: &mut InOutTile<'_, i64>,
    mut permit: impl FnMut(usize) -> Result<(), PipeError>,
) -> Result<(), KernelError> {
    let inputs = gather_list(list)?;
    gather(|row| x.row(row).to_vec(), x.rows())?;
    let mut elements = places(x.first_row(), x.shape(), x.len());
    for row in 0..x.rows() {
        for value in x.row_mut(row) {
            let element = elements.next().ok_or("a tile has as many elements as places")?;
            permit(element)?;
            *value = mix(salt, &inputs, element, Some(*value));
        }
    }
    Ok(())
}

/// What the parts of a mixed task pass round: part 1, which writes, asks part 0 for a permit for every element; if there is a
/// part 2, the permit comes through it. A negative number ends it.
fn serve(block: &Block<'_>) -> Result<(), PipeError> {
    let last = block.parts() - 1;
    match block.part() {
        0 => loop {
            let element = block.pop::<i64>(1)?;
            block.push(last, element)?;
            if element < 0 {
                return Ok(());
            }
        },
        _ => loop {
            let element = block.pop::<i64>(0)?;
            block.push(1, element)?;
            if element < 0 {
                return Ok(());
            }
        },
    }
}

fn permit(block: &Block<'_>, element: i64) -> Result<(), PipeError> {
    block.push(0, element)?;
    let answer = block.pop::<i64>(block.parts() - 1 - usize::from(block.parts() == 2))?;
    assert_eq!(answer, element, "values arrive in order");
    Ok(())
}

impl TileKernels {
    /// Registers them. The blocks of a cohort wait for each other if they `meet`, which they can where they are threads.
    pub fn register(device: &mut Device, meet: bool) -> Self {
        type Ended = Result<(), KernelError>;
        let make = CoreClass::ALL.map(|class| {
            let body = |_: Block, salt: i64, list: InList<i64>, mut out: OutTile<i64>| -> Ended {
                write_tile(salt, &list, &mut out, |_| Ok(()))
            };
            device.block_kernel_on(class, &format!("make-tile-{}", class.name()), body)
        });
        let update = CoreClass::ALL.map(|class| {
            let body = |_: Block, salt: i64, list: InList<i64>, mut x: InOutTile<i64>| -> Ended {
                update_tile(salt, &list, &mut x, |_| Ok(()))
            };
            device.block_kernel_on(class, &format!("update-tile-{}", class.name()), body)
        });
        let classes = [CoreClass::Aic, CoreClass::Aiv, CoreClass::Aiv];
        let mut part = 0;
        let make_parts = classes.map(|class| {
            let body = |block: Block, salt: i64, list: InList<i64>, mut out: PartOut<i64, 1>| -> Ended {
                let Some(out) = out.own() else { return Ok(serve(&block)?) };
                write_tile(salt, &list, out, |element| permit(&block, element as i64))?;
                Ok(permit(&block, -1)?)
            };
            part += 1;
            device.block_kernel_on(class, &format!("make-part-{part}"), body)
        });
        let update_parts = classes.map(|class| {
            let body = |block: Block, salt: i64, list: InList<i64>, mut x: PartInOut<i64, 1>| -> Ended {
                let Some(x) = x.own() else { return Ok(serve(&block)?) };
                update_tile(salt, &list, x, |element| permit(&block, element as i64))?;
                Ok(permit(&block, -1)?)
            };
            part += 1;
            device.block_kernel_on(class, &format!("update-part-{part}"), body)
        });
        let meetings = meet.then(|| Arc::new(Meetings::default()));
        let make_together = CoreClass::ALL.map(|class| {
            let meetings = meetings.clone();
            let body = move |block: Block, salt: i64, list: InList<i64>, mut out: OutTile<i64>| -> Ended {
                if let Some(meetings) = &meetings {
                    meetings.meet(salt, block.count())?;
                }
                write_tile(salt, &list, &mut out, |_| Ok(()))
            };
            device.block_kernel_on(class, &format!("make-together-{}", class.name()), body)
        });
        let update_together = CoreClass::ALL.map(|class| {
            let meetings = meetings.clone();
            let body = move |block: Block, salt: i64, list: InList<i64>, mut x: InOutTile<i64>| -> Ended {
                if let Some(meetings) = &meetings {
                    meetings.meet(salt, block.count())?;
                }
                update_tile(salt, &list, &mut x, |_| Ok(()))
            };
            device.block_kernel_on(class, &format!("update-together-{}", class.name()), body)
        });
        Self { make, update, make_parts, update_parts, make_together, update_together }
    }
}
