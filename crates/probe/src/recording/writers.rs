//! The writers of a lane, one field per kind: they follow from the rows of `for_each_kind!`.

use super::{PoolWriter, RecordingLane};
use plimsoll_abi::AgentId;
use plimsoll_abi::record::*;
use plimsoll_shm::{LaneContext, Region, World, Writer};

/// A record of a kind that agents write, one pool each.
pub trait AgentRecord: Record {
    /// Writes the record; whether it was kept. Its flag must be on, or there is no pool.
    fn push<W: World>(self, lane: &mut RecordingLane<'_, W>) -> bool;
}

/// Sorts the rows into those of cores and those of agents, and defines the writers of both.
macro_rules! define_writers {
    (@sorted [$($(#[$c_cfg:meta])* $core:ident: $core_record:ident;)*] [$($(#[$a_cfg:meta])* $agent:ident: $agent_record:ident;)*]) => {
        /// The writers of one core's pools.
        pub(super) struct CoreWriters<'r> {
            $($(#[$c_cfg])* pub(super) $core: PoolWriter<'r, $core_record>,)*
        }

        impl<'r> CoreWriters<'r> {
            pub(super) fn new(region: &'r Region, core: u16) -> Self {
                Self { $($(#[$c_cfg])* $core: writer(region, core),)* }
            }

            pub(super) fn flush<W: World>(&mut self, context: &mut LaneContext<'r, W>) {
                $($(#[$c_cfg])* self.$core.flush(context);)*
            }

            pub(super) fn release<W: World>(&mut self, context: &mut LaneContext<'r, W>) {
                $($(#[$c_cfg])* self.$core.release(context);)*
            }
        }

        /// The writers of one agent's pools.
        pub(super) struct AgentWriters<'r> {
            $($(#[$a_cfg])* pub(super) $agent: PoolWriter<'r, $agent_record>,)*
        }

        impl<'r> AgentWriters<'r> {
            pub(super) fn new(region: &'r Region, agent: AgentId) -> Self {
                Self { $($(#[$a_cfg])* $agent: writer(region, agent.0),)* }
            }

            pub(super) fn flush<W: World>(&mut self, context: &mut LaneContext<'r, W>) {
                $($(#[$a_cfg])* self.$agent.flush(context);)*
            }

            pub(super) fn release<W: World>(&mut self, context: &mut LaneContext<'r, W>) {
                $($(#[$a_cfg])* self.$agent.release(context);)*
            }
        }

        $($(#[$a_cfg])* impl AgentRecord for $agent_record {
            // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
            #[inline(always)]
            fn push<W: World>(self, lane: &mut RecordingLane<'_, W>) -> bool {
                lane.agent.$agent.push(self, &mut lane.context)
            }
        })*
    };
    (@sort [$($cores:tt)*] [$($agents:tt)*]) => {
        define_writers! { @sorted [$($cores)*] [$($agents)*] }
    };
    (@sort [$($cores:tt)*] [$($agents:tt)*] $(#[$cfg:meta])* $kind:ident = $n:literal, $record:ident, $name:ident, $flag:ident, Cores $(($stamp:ident))?, $what:literal; $($rest:tt)*) => {
        define_writers! { @sort [$($cores)* $(#[$cfg])* $name: $record;] [$($agents)*] $($rest)* }
    };
    (@sort [$($cores:tt)*] [$($agents:tt)*] $(#[$cfg:meta])* $kind:ident = $n:literal, $record:ident, $name:ident, $flag:ident, $who:ident $(($stamp:ident))?, $what:literal; $($rest:tt)*) => {
        define_writers! { @sort [$($cores)*] [$($agents)* $(#[$cfg])* $name: $record;] $($rest)* }
    };
    ($($rows:tt)*) => {
        define_writers! { @sort [] [] $($rows)* }
    };
}
plimsoll_abi::for_each_kind!(define_writers);

fn writer<R: Record>(region: &Region, instance: u16) -> PoolWriter<'_, R> {
    Writer::new(region.pool::<R>(instance))
}
