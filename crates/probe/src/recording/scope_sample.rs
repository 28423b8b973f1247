//! Kinds 4 and 6: the begin or the end of a scope, and what all rings hold where a reader could not know it.

use super::RecordingLane;
use crate::ScopeEvent;
use plimsoll_abi::record::{ScopePhase, ScopeRecord, ScopeRingsRecord};
use plimsoll_abi::{Flags, RINGS};
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
    #[inline(always)]
    pub(super) fn write_scope(&mut self, event: &ScopeEvent<'_>) {
        if !self.flags.has(Flags::SCOPE_STATS) {
            return;
        }
        let at = self.context.world.ticks();
        let ends = event.phase == ScopePhase::End;
        let mut bits = if event.fatal { ScopeRecord::FATAL } else { 0 };
        bits |= if ends { ScopeRecord::ENDS } else { 0 };
        // The root scope is the first sample of a lane or of a round, so a reader knows nothing of the other rings yet.
        let other_rings = event.changed != 0 || event.depth == 0 || self.rings_lost;
        let peaks_differ = ends && event.peaks.is_some_and(|peaks| peaks != event.used);
        if other_rings || peaks_differ {
            bits |= ScopeRecord::HAS_RINGS;
            self.write_rings(at, event);
        }
        debug_assert!(event.site.0 < u32::from(ScopeRecord::ENDS), "a number of the site table");
        let own = event.used.ring(usize::from(event.depth).min(RINGS - 1));
        let is_kept = self.push(ScopeRecord {
            at,
            window_head: event.heads.window,
            heap_head: event.heads.heap,
            dep_head: event.heads.dep_pool,
            heap: own.heap,
            window: own.window,
            dep_pool: own.dep_pool,
            tensormap: event.used.tensormap,
            scope: event.scope,
            peak_fanin: event.peak_fanin,
            depth: event.depth,
            site_and_bits: event.site.0 as u16 | bits,
        });
        if !is_kept {
            // Nobody else tells what its own ring holds, until a sample has a record of all rings.
            self.rings_lost = true;
        }
    }

    /// Written before the sample that it belongs to, so that whoever has the sample has this too. If it is dropped, the
    /// next sample has one again.
    #[cold]
    #[inline(never)]
    fn write_rings(&mut self, at: u64, event: &ScopeEvent<'_>) {
        let peaks = event.peaks.filter(|_| event.phase == ScopePhase::End).unwrap_or(event.used);
        self.rings_lost = !self.push(ScopeRingsRecord::of(at, event.scope, event.used, peaks));
    }
}
