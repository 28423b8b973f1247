//! A host with only a copy of the region gets every record, and moves no more than it must.

use super::*;
use crate::rotation::{Drainer, Sweep, Writer};
use crate::{BufferSizes, LaneContext, Policy, RegionSpec, Role, World};
use plimsoll_abi::record::AicoreTask;
use plimsoll_abi::region::{ClockSource, pool_index};
use plimsoll_abi::{AgentId, Flags};

#[derive(Clone)]
struct Still;

impl World for Still {
    fn ticks(&self) -> u64 {
        0
    }
    fn notify_host(&self) {}
}

fn tokens(transport: &Transport, pool: u32, buffer: u32, count: u32) -> Vec<u32> {
    // SAFETY: one thread, and the copy is the host's.
    let records = unsafe { transport.good_records(pool, buffer, count, 0) };
    records.chunks_exact(size_of::<AicoreTask>()).map(|r| bytemuck::pod_read_unaligned::<AicoreTask>(r).token).collect()
}

/// Drains 50 records through a shadow that reads in the way that `prepare` chooses; returns what was moved.
fn drained(buffers: u32, records: u32, prepare: impl Fn(&Transport)) -> Moved {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let spec = RegionSpec {
        flags: Flags::CORE_TIMING,
        cores: 1,
        agents: vec![Role::BOTH],
        policy: Policy::Drop,
        host_gone_ns: 1,
        drop_wait_ns: 0,
        clock_hz: 1,
        clock_source: ClockSource::Os,
        sizes: BufferSizes { buffers: Some(buffers), records: Some(records) },
        kernel_name_bytes: 0,
    };
    let device = Arc::new(Region::create(&spec, dir.path(), Some(dir.path())).expect("room for a small region"));
    let shadow = Transport::new(Arc::clone(&device), TransportKind::Shadow).expect("room for a copy");
    prepare(&shadow);
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
        }
        while let Some(taken) = drainer.take(&shadow, 0).expect("the protocol holds") {
            seen.extend(tokens(&shadow, taken.pool, taken.buffer, taken.count));
            drainer.give_back(&shadow, taken).expect("I1 holds");
        }
    }
    let Ok(Sweep::Settled(open, counters)) = drainer.unsealed(&shadow, pool) else { panic!("nothing moves") };
    seen.extend(open.iter().flat_map(|open| tokens(&shadow, pool, open.buffer, open.count)));
    assert_eq!((seen, counters.published), ((0..50).collect(), 50), "{buffers} of {records}");
    shadow.moved()
}

#[test]
fn a_host_with_a_copy_gets_every_record_in_every_way() {
    for (buffers, records) in [(1, 1), (1, 3), (2, 2), (4, 5)] {
        let here = drained(buffers, records, |_| ());
        assert_eq!((here.way, &here.note), ("memcpy", &None));
        let bytes = 50 * size_of::<AicoreTask>() as u64;
        assert!(here.bytes_read > bytes && here.bytes_written >= 8, "{here:?}");
        // This process can read itself, if the kernel lets anybody read anybody.
        let other = drained(buffers, records, |shadow| {
            shadow.device_memory(std::process::id(), shadow.region().base.as_ptr() as u64);
        });
        assert_eq!(other.way == "file", other.note.is_some(), "{other:?}");
        assert_eq!((other.bytes_read, other.bytes_written), (here.bytes_read, here.bytes_written), "{other:?}");
        // No process has this number; so it is gone, and the file is read.
        let gone = drained(buffers, records, |shadow| shadow.device_memory(i32::MAX as u32, 0));
        assert!(gone.way == "file" && gone.note.as_ref().is_some_and(|note| note.contains("gone")), "{gone:?}");
        assert_eq!((gone.bytes_read, gone.bytes_written), (here.bytes_read, here.bytes_written), "{gone:?}");
    }
}
