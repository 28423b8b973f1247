//! A host that has only a copy of the region and moves what the drainer says: shows that the drainer asks for everything
//! that it reads, and hands over everything that it wrote.

use super::*;
use crate::rotation::{Drainer, SharedPart, Sweep, Writer};
use crate::{BufferSizes, LaneContext, World};
use plimsoll_abi::record::AicoreTask;
use plimsoll_abi::region::{ClockSource, LINE};

struct Shadow<'d> {
    device: &'d Region,
    /// Laid out as the device's, and never written by it.
    copy: Region,
}

fn copy(from: &Region, to: &Region, offset: u64, bytes: usize) {
    // SAFETY: in bounds as `span` checks; this test has one thread, so nobody writes meanwhile.
    to.put(offset, unsafe { std::slice::from_raw_parts(from.span(offset, bytes).as_ptr(), bytes) });
}

impl Shadow<'_> {
    /// Where a queue's head, tail and slots are.
    fn queue_parts(&self, part: SharedPart) -> Option<[(u64, usize); 3]> {
        let (offset, slots) = match part {
            SharedPart::Ready(agent) => {
                (self.copy.plan.ready[agent].offset, self.copy.plan.ready[agent].slots as usize)
            }
            SharedPart::Free(pool) => {
                let (entry, layout) = self.copy.known(pool);
                (entry.free_offset, layout.free_slots as usize)
            }
            _ => return None,
        };
        Some([(offset, LINE), (offset + LINE as u64, LINE), (offset + 2 * LINE as u64, slots * 8)])
    }
}

impl HostMemory for Shadow<'_> {
    fn refresh(&self, part: SharedPart) -> Result<(), Error> {
        let known = |pool| self.copy.known(pool);
        let at =
            |pool, buffer| known(pool).0.buffers_offset + u64::from(buffer) * u64::from(known(pool).1.buffer_stride);
        let owned = match (part, self.queue_parts(part)) {
            (SharedPart::Ready(_), Some([head, _, slots])) => vec![head, slots],
            (_, Some([_, tail, _])) => vec![tail],
            (SharedPart::Head(pool), _) => vec![(known(pool).0.head_offset, LINE)],
            (SharedPart::Header(pool, buffer), _) => vec![(at(pool, buffer), LINE)],
            (SharedPart::Records(pool, buffer, count), _) => {
                vec![(at(pool, buffer) + LINE as u64, count as usize * known(pool).1.record_bytes as usize)]
            }
            _ => Vec::new(),
        };
        owned.into_iter().for_each(|(offset, bytes)| copy(self.device, &self.copy, offset, bytes));
        Ok(())
    }

    fn write_back(&self, part: SharedPart) -> Result<(), Error> {
        let owned = match (part, self.queue_parts(part)) {
            (SharedPart::Ready(_), Some([_, tail, _])) => vec![tail],
            (_, Some([head, _, slots])) => vec![slots, head],
            _ => panic!("the host owns nothing of {part:?}"),
        };
        owned.into_iter().for_each(|(offset, bytes)| copy(&self.copy, self.device, offset, bytes));
        Ok(())
    }

    fn ready(&self, agent: usize) -> QueueView<'_> {
        self.copy.ready(agent)
    }
    fn geometry(&self, pool: u32) -> Option<(u32, u32)> {
        self.copy.geometry(pool)
    }
    fn head(&self, pool: u32) -> &ActiveHead {
        HostMemory::head(&self.copy, pool)
    }
    fn free(&self, pool: u32) -> QueueView<'_> {
        HostMemory::free(&self.copy, pool)
    }
    fn header(&self, pool: u32, buffer: u32) -> &BufferHeader {
        HostMemory::header(&self.copy, pool, buffer)
    }
}

#[derive(Clone)]
struct Still;

impl World for Still {
    fn ticks(&self) -> u64 {
        0
    }
    fn notify_host(&self) {}
}

fn tokens(shadow: &Shadow<'_>, pool: u32, buffer: u32, count: u32) -> Vec<u32> {
    // SAFETY: one thread, and the copy is the host's.
    let records = unsafe { shadow.copy.records(pool, buffer, count) };
    records.chunks_exact(size_of::<AicoreTask>()).map(|r| bytemuck::pod_read_unaligned::<AicoreTask>(r).token).collect()
}

#[test]
fn a_host_with_a_copy_gets_every_record() {
    for (buffers, records) in [(1, 1), (1, 3), (2, 2), (4, 5)] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let spec = RegionSpec {
            flags: Flags::CORE_TIMING,
            cores: 1,
            agents: vec![crate::Role::BOTH],
            policy: Policy::Drop,
            host_gone_ns: 1,
            drop_wait_ns: 0,
            clock_hz: 1,
            clock_source: ClockSource::Os,
            sizes: BufferSizes { buffers: Some(buffers), records: Some(records) },
            kernel_name_bytes: 0,
        };
        let made = || Region::create(&spec, dir.path(), Some(dir.path())).expect("room for a small region");
        let device = made();
        let shadow = Shadow { device: &device, copy: made() };
        let mut drainer = Drainer::stock(&shadow, 1, device.directory_len()).expect("copies do not fail");
        let (control, ready) = (device.control(), device.ready_queue(AgentId(0)));
        let mut lane = LaneContext::new(Still, control, ready, device.patience(), 1, 0);
        let mut writer = Writer::new(device.pool::<AicoreTask>(0));
        let pool = pool_index(Kind::AicoreTask, 0) as u32;
        let mut seen = Vec::new();
        for token in 0..50 {
            assert!(writer.push(AicoreTask { token, ..AicoreTask::default() }, &mut lane), "{buffers} of {records}");
            // The last buffer is left as it is.
            if (token + 1) % records == 0 && token < 49 {
                writer.flush(&mut lane);
                let taken = drainer.take(&shadow, 0).expect("the protocol holds").expect("it was sealed");
                seen.extend(tokens(&shadow, taken.pool, taken.buffer, taken.count));
                drainer.give_back(&shadow, taken).expect("I1 holds");
            }
            while let Some(taken) = drainer.take(&shadow, 0).expect("the protocol holds") {
                seen.extend(tokens(&shadow, taken.pool, taken.buffer, taken.count));
                drainer.give_back(&shadow, taken).expect("I1 holds");
            }
        }
        let Ok(Sweep::Settled(open, counters)) = drainer.unsealed(&shadow, pool) else { panic!("nothing moves") };
        seen.extend(open.iter().flat_map(|open| tokens(&shadow, pool, open.buffer, open.count)));
        assert_eq!((seen, counters.published), ((0..50).collect(), 50), "{buffers} of {records}");
    }
}
