//! `fault-sync-start`: a task whose blocks are to start together and are more than ever can. Those before it are in order.

use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    Block, BlockKernel, Device, InOutTile, Orchestrator, ReadWrite, Result, SharedBuffer, TaskShape, inout,
};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-sync-start",
    about: "code 7: the blocks of a task are to start together and are more than ever can",
    params: &[
        ProgramSetting::new("tasks", 20, 1, 1 << 16, "tasks"),
        ProgramSetting::new("at", 10, 0, 1 << 20, "the task that has more; past the last one it passes"),
        ProgramSetting::new("more", 1, 0, 64, "how many blocks it has more than can start together"),
    ],
    fault: true,
    build,
};

struct SyncStart {
    tasks: usize,
    at: usize,
    /// Blocks that can start together, and that the wrong task has.
    blocks: [u32; 2],
    add: BlockKernel<(ReadWrite<i64>,)>,
    x: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let add = device.block_kernel("add", |_: Block, mut x: InOutTile<i64>| {
        x.row_mut(0).iter_mut().for_each(|x| *x += 1);
    });
    let fits = device.limits().together(plimsoll_runtime::CoreClass::Any) as u32;
    let blocks = [fits, fits + settings.get("more") as u32];
    let x = SharedBuffer::new(vec![0; (blocks[0] * blocks[1]) as usize]);
    Ok(Box::new(SyncStart { tasks: settings.get("tasks"), at: settings.get("at"), blocks, add, x }))
}

impl SyncStart {
    /// As many rows as can be divided among both numbers of blocks.
    fn rows(&self) -> usize {
        (self.blocks[0] * self.blocks[1]) as usize
    }
}

impl Instance for SyncStart {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let x = o.share(&self.x, [self.rows()])?;
        for index in 0..self.tasks {
            let blocks = self.blocks[usize::from(index == self.at)];
            o.scope(|o| o.submit_shaped(&TaskShape::blocks(blocks).sync_start(), &self.add, (inout(&x),)).map(drop))?;
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.x]
    }

    fn reset(&self) -> Result<()> {
        self.x.with(|x| x.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        Ok(Verdict::equal(&self.x.to_vec()?, &vec![self.tasks as i64; self.rows()]))
    }

    fn spoil(&self) -> Result<()> {
        self.x.with(|x| x[0] += 1)
    }
}
