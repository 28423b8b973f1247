//! A region that another process has made: how a device in a process of its own gets at the region of its run.

use super::Region;
use crate::backing::map;
use crate::error::Error;
use crate::plan::RegionPlan;
use crate::tables::Tables;
use bytemuck::{Pod, Zeroable};
use plimsoll_abi::region::{
    INSTANCE_SLOTS, KIND_SLOTS, KindLayout, MAGIC, PoolEntry, ReadyEntry, RegionHeader, SCHEMA,
};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Mutex;

impl Region {
    /// Maps a region that another process has made and described. `file` is a descriptor that the other process has handed
    /// over, so both hold the one lock of the region, and it lasts until neither of them lives.
    ///
    /// # Errors
    /// [`Error::NotARegion`] if the file is none of this version; [`Error::Io`] if it cannot be looked at or mapped.
    pub fn attach(file: File, path: &Path) -> Result<Self, Error> {
        let io =
            |source| Error::Io { doing: "look at", path: path.to_path_buf(), source, advice: "start the run again" };
        let bytes = file.metadata().map_err(io)?.len() as usize;
        let refuse = |why: &str| Error::NotARegion { path: path.to_path_buf(), why: why.into() };
        if bytes < size_of::<RegionHeader>() {
            return Err(refuse("it is too short. Start the run again"));
        }
        let base = map(path, &file, bytes)?;
        let plan = RegionPlan {
            header: RegionHeader::zeroed(),
            kinds: [KindLayout::zeroed(); KIND_SLOTS],
            pools: vec![PoolEntry::default(); KIND_SLOTS * INSTANCE_SLOTS],
            ready: Vec::new(),
        };
        let (path, tables) = (path.to_path_buf(), Mutex::new(Tables::new()));
        let mut region = Self { base, bytes, path, plan, tables, file, owns_lock: false };
        let mut header = RegionHeader::zeroed();
        // pairs(region.magic): it is written last, so a header that has it is complete.
        region.copy_out(0, std::slice::from_mut(&mut header));
        if header.magic != MAGIC || header.schema != SCHEMA || header.region_bytes != bytes as u64 {
            return Err(refuse("its header is not of this version. Start host and device from the same build"));
        }
        let mut plan = RegionPlan { header, ..region.plan.clone() };
        plan.ready = vec![ReadyEntry::default(); (header.agents as usize).min(INSTANCE_SLOTS)];
        region.copy_out(header.kinds_offset, &mut plan.kinds);
        region.copy_out(header.pools_offset, &mut plan.pools);
        region.copy_out(header.ready_offset, &mut plan.ready);
        region.plan = plan;
        Ok(region)
    }

    /// The region's file, to be handed to the process of the device.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where the region begins in the memory of this process.
    pub fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Copies what was written before the other side was told of the region.
    fn copy_out<T: Pod>(&self, offset: u64, to: &mut [T]) {
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        let from = self.span(offset, to.len());
        // SAFETY: in bounds as `span` checks; the other side has written these bytes for good before it handed the region
        // over.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) }
    }
}
