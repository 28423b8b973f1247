//! The status board as its readers see it: in this process, and in a file that somebody else has mapped.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use plimsoll_abi::board::{Activity, RingStatus};
use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, Resource, SiteId, TaskId};
use plimsoll_shm::image::RegionImage;
use plimsoll_shm::{Board, BoardLook, BufferSizes, Execution, Policy, Region, RegionSpec, Role};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn region(dir: &Path) -> Arc<Region> {
    let spec = RegionSpec {
        flags: Flags::CORE_TIMING,
        cores: 3,
        agents: vec![Role::BOTH; 2],
        policy: Policy::Block,
        host_gone_ns: 1,
        drop_wait_ns: 1,
        clock_hz: 1,
        clock_source: ClockSource::Os,
        sizes: BufferSizes { buffers: Some(1), records: Some(1) },
        kernel_name_bytes: 0,
    };
    Arc::new(Region::create(&spec, dir, Some(dir)).unwrap())
}

/// Writes on every part of the board.
fn write(board: &Board) {
    let orchestrator = board.agent(AgentId(0));
    orchestrator.enter(0);
    orchestrator.begin_submit();
    orchestrator.note_site(SiteId(9));
    orchestrator.want(Resource::Heap, 2, 4096);
    orchestrator.set(Activity::WaitRoom);
    let core = board.core(CoreId(1));
    core.enter(4);
    core.begin(TaskId::new(2, 17).raw(), 5);
    board.agent(AgentId(1)).enter(0);
    board.agent(AgentId(1)).note_ready(3);
    board.agent(AgentId(1)).set(Activity::Idle);
    board.head().note_tensormap(7, 100);
    board.rings()[2].note(&RingStatus {
        head: 20,
        tail: 4,
        watermark: 11,
        pin: 5,
        window: 16,
        site: 9,
        ..Default::default()
    });
}

fn check(look: &BoardLook) {
    assert_eq!((look.agents.len(), look.cores.len()), (2, 3));
    assert_eq!((look.head.tensormap, look.head.tensormap_capacity), (7, 100));
    let orchestrator = look.orchestrator();
    assert_eq!((orchestrator.submits_begun, orchestrator.site, orchestrator.amount), (1, 9, 4096));
    assert_eq!(orchestrator.wanted(), Some((Resource::Heap, 2)));
    assert_eq!((look.agents[1].activity(), look.agents[1].ready), (Activity::Idle, 3));
    assert_eq!((look.rings[2].head, look.rings[2].watermark, look.rings[2].pin), (20, 11, 5));
    let thread = look.agents[0].thread;
    assert!(thread != 0 && look.cores[0].thread == 0, "nobody wrote on the line of core 0");
    let running =
        Execution { core: CoreId(1), task: TaskId::new(2, 17), kernel: KernelId(5), token: 5, thread, since: 0 };
    assert_eq!((look.executions(), look.begun()), (vec![running], 5));
}

#[test]
fn plain_memory_and_a_region_tell_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let region = region(dir.path());
    let (plain, mapped) = (Board::new(2, 3), Board::in_region(Arc::clone(&region)));
    write(&plain);
    write(&mapped);
    check(&plain.look());
    assert_eq!(plain.look(), mapped.look());
    let read = RegionImage::open_any(region.path()).unwrap();
    assert_eq!(read.board().unwrap(), mapped.look(), "through the file, while the run lives");
    mapped.core(CoreId(1)).end();
    assert_eq!(read.board().unwrap().executions(), [], "every look is a new one");
}

#[test]
fn another_process_sees_the_board_of_a_live_one() {
    if let Some(path) = std::env::var_os("PLIMSOLL_TEST_REGION") {
        return check(&RegionImage::open_any(Path::new(&path)).unwrap().board().unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let region = region(dir.path());
    write(&Board::in_region(Arc::clone(&region)));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["board::another_process_sees_the_board_of_a_live_one", "--exact"])
        .env("PLIMSOLL_TEST_REGION", region.path());
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_board_that_lies_outside_its_file_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let region = region(dir.path());
    let mut bytes = std::fs::read(region.path()).unwrap();
    let at = std::mem::offset_of!(plimsoll_abi::region::RegionHeader, board_offset);
    for offset in [u64::MAX, u64::MAX - 63, bytes.len() as u64 - 64] {
        bytes[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        let image = RegionImage::parse(&bytes[..], Path::new("region")).unwrap();
        assert!(image.board().is_none(), "at {offset}");
    }
}

#[test]
fn a_look_is_the_same_after_it_went_to_another_process() {
    let board = Board::new(2, 3);
    board.agent(AgentId(0)).enter(7);
    board.agent(AgentId(0)).want(Resource::TaskWindow, 1, 5);
    board.core(CoreId(2)).begin(9, 4);
    let look = board.look();
    assert_eq!(BoardLook::from_bytes(&look.to_bytes()), Some(look.clone()));
    let bytes = look.to_bytes();
    assert!((0..bytes.len()).all(|len| BoardLook::from_bytes(&bytes[..len]).is_none()));
}
