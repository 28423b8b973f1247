//! The picture as a Perfetto trace (`.pftrace`), which opens in ui.perfetto.dev.
//!
//! Every lane is a packet sequence of its own whose defaults name its track, so an event carries neither. Names of
//! slices and facts are interned, once per sequence at their first use.

mod proto;

use std::io::{self, Write};

use plimsoll_abi::TaskId;
use plimsoll_trace::Trace;

use crate::picture::{Canvas, Drawn, Flows, Key, Slice, Unit, draw};
use proto::{Open, Packets, annotation, counter, event, interned, named, packet, track};

/// Writes a trace; `out` should buffer.
///
/// # Errors
/// What `out` says.
pub fn write_perfetto(trace: &Trace, flows: Flows, out: impl Write) -> io::Result<Drawn> {
    let mut canvas = PerfettoCanvas::new(trace, out);
    let drawn = draw(trace, flows, &mut canvas)?;
    canvas.out.flush()?;
    Ok(drawn)
}

/// Numbers under which facts' names are interned: that of a task's id, then those of [`Key::ALL`].
const TASK: u64 = 1;
const FIRST_KEY: u64 = 2;
/// The track that holds all groups.
const ROOT: u64 = 1;

struct PerfettoCanvas<'t, W> {
    /// Knows what tasks are called.
    trace: &'t Trace,
    out: W,
    names: Vec<String>,
    /// Tracks so far; a lane's number is its track and its sequence.
    tracks: u64,
    group: u64,
    groups: u64,
    lanes: u64,
    /// The sequence that names were last interned on, by name; 0 for none.
    interned_on: Vec<u64>,
    fresh: bool,
    packets: Packets,
}

impl<'t, W: Write> PerfettoCanvas<'t, W> {
    fn new(trace: &'t Trace, out: W) -> Self {
        Self {
            trace,
            out,
            names: Vec::new(),
            tracks: ROOT,
            group: ROOT,
            groups: 0,
            lanes: 0,
            interned_on: Vec::new(),
            fresh: false,
            packets: Packets::default(),
        }
    }

    fn describe(&mut self, parent: Option<u64>, name: &str, rank: u64, unit: Option<Unit>) -> io::Result<()> {
        let packets = &mut self.packets;
        let packet = packets.packet();
        let descriptor = packets.open(packet::TRACK_DESCRIPTOR);
        packets.varint(track::UUID, self.tracks);
        if let Some(parent) = parent {
            packets.varint(track::PARENT_UUID, parent);
        }
        packets.text(track::NAME, name);
        packets.varint(track::CHILD_ORDERING, track::EXPLICIT);
        packets.varint(track::SIBLING_ORDER_RANK, rank);
        if let Some(unit) = unit {
            let part = packets.open(track::COUNTER);
            packets.varint(counter::UNIT, if unit == Unit::Bytes { counter::BYTES } else { counter::COUNT });
            packets.close(part);
        }
        packets.close(descriptor);
        packets.close(packet);
        packets.drain(&mut self.out)
    }

    /// Opens the packet of an event; the first of a sequence carries its defaults.
    fn open_packet(&mut self, at_ns: u64) -> Open {
        let packets = &mut self.packets;
        let packet = packets.packet();
        packets.varint(packet::TIMESTAMP, at_ns);
        packets.varint(packet::SEQUENCE, self.tracks);
        let flags = if self.fresh { packet::STATE_CLEARED | packet::NEEDS_STATE } else { packet::NEEDS_STATE };
        packets.varint(packet::SEQUENCE_FLAGS, flags);
        if self.fresh {
            self.fresh = false;
            let defaults = packets.open(packet::DEFAULTS);
            let of_events = packets.open(packet::TRACK_EVENT_DEFAULTS);
            packets.varint(event::TRACK_UUID, self.tracks);
            packets.close(of_events);
            packets.close(defaults);
            let interned = packets.open(packet::INTERNED);
            let keys = Key::ALL.iter().enumerate().map(|(at, key)| (FIRST_KEY + at as u64, key.name()));
            for (id, name) in std::iter::once((TASK, "task")).chain(keys) {
                intern(packets, interned::ANNOTATION_NAMES, id, name);
            }
            packets.close(interned);
        }
        packet
    }

    /// Closes an event and its packet.
    fn close_packet(&mut self, packet: Open, event: Open) -> io::Result<()> {
        self.packets.close(event);
        self.packets.close(packet);
        self.packets.drain(&mut self.out)
    }
}

fn intern(packets: &mut Packets, field: u32, id: u64, name: &str) {
    let entry = packets.open(field);
    packets.varint(named::IID, id);
    packets.text(named::NAME, name);
    packets.close(entry);
}

impl<W: Write> Canvas for PerfettoCanvas<'_, W> {
    fn start(&mut self, title: &str, names: Vec<String>) -> io::Result<()> {
        self.interned_on = vec![0; names.len()];
        self.names = names;
        self.describe(None, title, 0, None)
    }

    fn group(&mut self, name: &str) -> io::Result<()> {
        self.tracks += 1;
        self.groups += 1;
        self.group = self.tracks;
        self.describe(Some(ROOT), name, self.groups, None)
    }

    fn lane(&mut self, name: &str) -> io::Result<()> {
        self.tracks += 1;
        self.lanes += 1;
        self.fresh = true;
        self.describe(Some(self.group), name, self.lanes, None)
    }

    fn counter(&mut self, name: &str, unit: Unit) -> io::Result<()> {
        self.tracks += 1;
        self.lanes += 1;
        self.fresh = true;
        self.describe(Some(self.group), name, self.lanes, Some(unit))
    }

    #[inline]
    fn begin(&mut self, at_ns: u64, slice: &Slice<'_>) -> io::Result<()> {
        let packet = self.open_packet(at_ns);
        let packets = &mut self.packets;
        let name = slice.name as usize;
        // Number 0 means no name in the format, so they are counted from 1.
        let iid = u64::from(slice.name) + 1;
        if self.interned_on[name] != self.tracks {
            self.interned_on[name] = self.tracks;
            let interned = packets.open(packet::INTERNED);
            intern(packets, interned::EVENT_NAMES, iid, &self.names[name]);
            packets.close(interned);
        }
        let event = packets.open(packet::TRACK_EVENT);
        packets.varint(event::TYPE, event::SLICE_BEGIN);
        packets.varint(event::NAME_IID, iid);
        if let Some(word) = slice.task {
            let part = packets.open(event::ANNOTATIONS);
            packets.varint(annotation::NAME_IID, TASK);
            match self.trace.ids_have_rings() {
                true => packets.task(annotation::TEXT, TaskId::from_word(word).0),
                false => packets.text(annotation::TEXT, &self.trace.task_name(self.trace.id_and_epoch(word).0)),
            }
            packets.close(part);
        }
        for (key, value) in slice.facts {
            let part = packets.open(event::ANNOTATIONS);
            packets.varint(annotation::NAME_IID, FIRST_KEY + *key as u64);
            packets.varint(annotation::UINT, *value);
            packets.close(part);
        }
        for flow in slice.flows_out {
            packets.fixed64(event::FLOWS, *flow);
        }
        for flow in slice.flows_in {
            packets.fixed64(event::TERMINATING_FLOWS, *flow);
        }
        self.close_packet(packet, event)
    }

    #[inline]
    fn end(&mut self, at_ns: u64) -> io::Result<()> {
        let packet = self.open_packet(at_ns);
        let event = self.packets.open(packet::TRACK_EVENT);
        self.packets.varint(event::TYPE, event::SLICE_END);
        self.close_packet(packet, event)
    }

    fn value(&mut self, at_ns: u64, value: u64) -> io::Result<()> {
        let packet = self.open_packet(at_ns);
        let event = self.packets.open(packet::TRACK_EVENT);
        self.packets.varint(event::TYPE, event::COUNTER);
        self.packets.varint(event::COUNTER_VALUE, value);
        self.close_packet(packet, event)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.packets.drain_all(&mut self.out)
    }
}
