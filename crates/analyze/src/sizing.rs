//! What sizes of rings and tensormap would do for a run.

use plimsoll_abi::{RINGS, Resource};
use plimsoll_trace::{CapacityFacts, Manifest, Status};
use serde::Serialize;

/// Sizes for a program, from one of its runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sizing {
    /// The program.
    pub program: String,
    /// How the run ended that this is taken from.
    pub status: &'static str,
    /// One row per ring and resource, then the tensormap.
    pub rings: Vec<SizeRow>,
    /// Bytes that the recommended sizes reserve less than the present ones; negative if more.
    pub bytes_saved: i64,
    /// The recommended sizes as flags.
    pub flags: String,
    /// The recommended sizes as variables, `NAME=value`.
    pub environment: Vec<String>,
}

/// Sizes of one resource.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SizeRow {
    /// The resource.
    pub resource: &'static str,
    /// On which ring; absent for what rings share.
    pub ring: Option<u8>,
    /// Configured capacity.
    pub capacity: u64,
    /// The most that was in use.
    pub peak: u64,
    /// Whether more may be used, because the run did not reach its end.
    pub peak_is_bound: bool,
    /// The least capacity with which the program ends; below it, it deadlocks.
    pub floor: u64,
    /// Whether the floor may be higher: the run did not reach its end, or the figure depends on timing.
    pub floor_is_bound: bool,
    /// The floor with headroom.
    pub recommended: u64,
    /// Bytes that the recommended size reserves less than the present one; negative if more.
    pub bytes_saved: i64,
}

/// Sizes from the manifest of a run; none if the run has not ended, or was killed and could not say what it used.
pub fn sizing(manifest: &Manifest) -> Option<Sizing> {
    let (peaks, floors) = (manifest.peaks.as_ref()?, manifest.floors.as_ref()?);
    let whole = manifest.status == Status::Ok;
    let mut rings = Vec::with_capacity(3 * RINGS + 1);
    for (resource, ring) in places() {
        let amount = |of: &CapacityFacts| amount(of, resource, ring);
        let (capacity, peak) = (amount(&manifest.capacities), amount(peaks));
        let (mut floor, mut floor_is_bound) = (amount(floors), !whole);
        if let Some((needed, bound)) = said_needed(manifest, resource, ring) {
            // The need that the error reports is exact for its scope; another scope may need more.
            (floor, floor_is_bound) = (floor.max(needed), bound);
        }
        let mut recommended = recommended(resource, capacity, peak, floor);
        if floor_is_bound && !whole {
            // The part of the program that was not reached may need all of the present capacity.
            recommended = recommended.max(capacity);
        }
        let bytes_saved = unit_bytes(resource) as i64 * (capacity as i64 - recommended as i64);
        let (resource, peak_is_bound) = (resource.name(), !whole);
        rings.push(SizeRow {
            resource,
            ring,
            capacity,
            peak,
            peak_is_bound,
            floor,
            floor_is_bound,
            recommended,
            bytes_saved,
        });
    }
    Some(Sizing {
        program: manifest.program.clone(),
        status: manifest.status.name(),
        bytes_saved: rings.iter().map(|row| row.bytes_saved).sum(),
        flags: SETTINGS.map(|(resource, flag, _)| format!("{flag} {}", values(&rings, resource))).join(" "),
        environment: SETTINGS.map(|(resource, _, name)| format!("{name}={}", values(&rings, resource))).to_vec(),
        rings,
    })
}

/// Flags and variables of every resource.
const SETTINGS: [(Resource, &str, &str); 4] = [
    (Resource::TaskWindow, "--ring-task-window", "PLIMSOLL_RING_TASK_WINDOW"),
    (Resource::Heap, "--ring-heap", "PLIMSOLL_RING_HEAP"),
    (Resource::DepPool, "--ring-dep-pool", "PLIMSOLL_RING_DEP_POOL"),
    (Resource::Tensormap, "--tensormap", "PLIMSOLL_TENSORMAP"),
];

/// Every resource and its ring, in the order of rows.
fn places() -> impl Iterator<Item = (Resource, Option<u8>)> {
    let per_ring = [Resource::TaskWindow, Resource::Heap, Resource::DepPool];
    let rings = (0..RINGS as u8).flat_map(move |ring| per_ring.map(|resource| (resource, Some(ring))));
    rings.chain([(Resource::Tensormap, None)])
}

fn amount(of: &CapacityFacts, resource: Resource, ring: Option<u8>) -> u64 {
    let at = &of.rings[ring.map_or(0, usize::from)];
    match resource {
        Resource::TaskWindow => at.task_window,
        Resource::Heap => at.heap,
        Resource::DepPool => at.dep_pool,
        Resource::Tensormap => of.tensormap,
    }
}

/// What the run's error says is needed of this resource, and whether that is only a bound.
fn said_needed(manifest: &Manifest, resource: Resource, ring: Option<u8>) -> Option<(u64, bool)> {
    let error = manifest.error.as_ref().filter(|e| e.resource.as_deref() == Some(resource.name()) && e.ring == ring)?;
    Some((error.needed?, error.needed_is_bound.unwrap_or(true)))
}

/// Twice what the program holds or used, so that one scope can be filled while another runs; but where it used all
/// there was and did not need it, more room was only used because it was there.
fn recommended(resource: Resource, capacity: u64, peak: u64, floor: u64) -> u64 {
    let enough = rounded(resource, 2 * floor);
    rounded(resource, 2 * peak.max(floor)).min(capacity.max(enough))
}

/// The next size that is easy to read and valid.
fn rounded(resource: Resource, amount: u64) -> u64 {
    const LEAST_SLOTS: u64 = 16;
    const ENTRIES: u64 = 64;
    const PAGE: u64 = 4096;
    const MIB: u64 = 1 << 20;
    match resource {
        Resource::TaskWindow => amount.max(LEAST_SLOTS).next_power_of_two(),
        Resource::Heap if amount < MIB => amount.max(1).next_multiple_of(PAGE),
        Resource::Heap => amount.next_multiple_of(MIB),
        Resource::DepPool | Resource::Tensormap => amount.max(1).next_multiple_of(ENTRIES),
    }
}

/// Bytes that one of a resource reserves: a slot is two cache lines, a tensormap entry one, a dependency entry a word.
fn unit_bytes(resource: Resource) -> u64 {
    match resource {
        Resource::TaskWindow => 128,
        Resource::Heap => 1,
        Resource::DepPool => 8,
        Resource::Tensormap => 64,
    }
}

/// The recommended values of a resource as a flag takes them: one, or four with commas if rings differ.
fn values(rows: &[SizeRow], resource: Resource) -> String {
    let rows = rows.iter().filter(|row| row.resource == resource.name());
    let values: Vec<String> = rows.map(|row| shown(resource, row.recommended)).collect();
    let same = values.windows(2).all(|pair| pair[0] == pair[1]);
    if same { values[0].clone() } else { values.join(",") }
}

fn shown(resource: Resource, value: u64) -> String {
    match resource {
        Resource::Heap if value.is_multiple_of(1 << 20) => format!("{}m", value >> 20),
        Resource::Heap if value.is_multiple_of(1 << 10) => format!("{}k", value >> 10),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::ErrorReport;

    fn manifest() -> Manifest {
        let mut m = Manifest::new("p");
        m.status = Status::Ok;
        let all = |task_window, heap, dep_pool, tensormap| {
            let ring = plimsoll_trace::RingCapacity { task_window, heap, dep_pool };
            CapacityFacts { rings: [ring; RINGS], tensormap }
        };
        m.capacities = all(16_384, 64 << 20, 16_384, 65_536);
        m.peaks = Some(all(300, 3000, 50, 900));
        m.floors = Some(all(16, 640, 7, 100));
        m
    }

    fn row(sizing: &Sizing, resource: Resource, ring: Option<u8>) -> &SizeRow {
        sizing.rings.iter().find(|row| row.resource == resource.name() && row.ring == ring).expect("a row")
    }

    #[test]
    fn headroom_is_twice_the_peak_rounded() {
        let sizing = sizing(&manifest()).expect("peaks");
        assert_eq!(sizing.rings.len(), 13);
        assert_eq!(sizing.flags, "--ring-task-window 1024 --ring-heap 8k --ring-dep-pool 128 --tensormap 1856");
        assert_eq!(sizing.environment[1], "PLIMSOLL_RING_HEAP=8k");
        let window = row(&sizing, Resource::TaskWindow, Some(2));
        assert_eq!((window.floor, window.floor_is_bound, window.bytes_saved), (16, false, 128 * (16_384 - 1024)));
    }

    #[test]
    fn what_was_used_because_it_was_there_asks_for_no_more() {
        let mut m = manifest();
        if let Some(peaks) = &mut m.peaks {
            peaks.rings[1].task_window = 16_384;
        }
        assert_eq!(row(&sizing(&m).expect("peaks"), Resource::TaskWindow, Some(1)).recommended, 16_384);
        if let Some(floors) = &mut m.floors {
            floors.rings[1].task_window = 16_384;
        }
        assert_eq!(row(&sizing(&m).expect("peaks"), Resource::TaskWindow, Some(1)).recommended, 32_768);
    }

    #[test]
    fn a_failed_run_gives_bounds_and_what_its_error_counted() {
        let mut m = manifest();
        m.status = Status::Failed;
        m.error = Some(ErrorReport {
            resource: Some("heap".into()),
            ring: Some(1),
            needed: Some(80 << 20),
            needed_is_bound: Some(false),
            ..ErrorReport::default()
        });
        let sizing = sizing(&m).expect("peaks");
        let heap = row(&sizing, Resource::Heap, Some(1));
        assert_eq!((heap.floor, heap.floor_is_bound, heap.recommended), (80 << 20, false, 160 << 20));
        assert!(row(&sizing, Resource::Heap, Some(2)).floor_is_bound);
        assert!(sizing.flags.contains("--ring-heap 64m,160m,64m,64m"), "{}", sizing.flags);
        m.peaks = None;
        assert_eq!(super::sizing(&m), None);
    }
}
