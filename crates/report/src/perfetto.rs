//! The picture as a Perfetto trace (`.pftrace`), which opens in ui.perfetto.dev.
//!
//! Every lane is a packet sequence of its own whose defaults name its track, so an event carries neither. Names of
//! slices and facts are interned, once per sequence at their first use.

mod proto;

use std::io::{self, Write};

use plimsoll_abi::TaskId;
use plimsoll_trace::Trace;

use crate::picture::{Canvas, Drawn, Flows, Key, Slice, Unit, draw};
use proto::{Message, annotation, counter, event, interned, named, packet, track};

/// Writes a trace; `out` should buffer.
pub fn write_perfetto(trace: &Trace, flows: Flows, out: impl Write) -> io::Result<Drawn> {
    let mut canvas = PerfettoCanvas::new(out);
    let drawn = draw(trace, flows, &mut canvas)?;
    canvas.out.flush()?;
    Ok(drawn)
}

/// Numbers under which facts' names are interned: that of a task's id, then those of [`Key::ALL`].
const TASK: u64 = 1;
const FIRST_KEY: u64 = 2;
/// The track that holds all groups.
const ROOT: u64 = 1;

struct PerfettoCanvas<W> {
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
    event: Message,
    packet: Message,
    part: Message,
}

impl<W: Write> PerfettoCanvas<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            names: Vec::new(),
            tracks: ROOT,
            group: ROOT,
            groups: 0,
            lanes: 0,
            interned_on: Vec::new(),
            fresh: false,
            event: Message::default(),
            packet: Message::default(),
            part: Message::default(),
        }
    }

    fn describe(&mut self, parent: Option<u64>, name: &str, rank: u64, unit: Option<Unit>) -> io::Result<()> {
        let descriptor = &mut self.event;
        descriptor.clear();
        descriptor.varint(track::UUID, self.tracks);
        if let Some(parent) = parent {
            descriptor.varint(track::PARENT_UUID, parent);
        }
        descriptor.text(track::NAME, name);
        descriptor.varint(track::CHILD_ORDERING, track::EXPLICIT);
        descriptor.varint(track::SIBLING_ORDER_RANK, rank);
        if let Some(unit) = unit {
            self.part.clear();
            self.part.varint(counter::UNIT, if unit == Unit::Bytes { counter::BYTES } else { counter::COUNT });
            descriptor.message(track::COUNTER, &self.part);
        }
        self.packet.clear();
        self.packet.message(packet::TRACK_DESCRIPTOR, descriptor);
        self.packet.write_packet(&mut self.out)
    }

    /// Starts the packet of an event; the first of a sequence carries its defaults.
    fn start_packet(&mut self, at_ns: u64) {
        self.packet.clear();
        self.packet.varint(packet::TIMESTAMP, at_ns);
        self.packet.varint(packet::SEQUENCE, self.tracks);
        let flags = if self.fresh { packet::STATE_CLEARED | packet::NEEDS_STATE } else { packet::NEEDS_STATE };
        self.packet.varint(packet::SEQUENCE_FLAGS, flags);
        if self.fresh {
            self.fresh = false;
            let mut defaults = Message::default();
            defaults.varint(event::TRACK_UUID, self.tracks);
            self.part.clear();
            self.part.message(packet::TRACK_EVENT_DEFAULTS, &defaults);
            self.packet.message(packet::DEFAULTS, &self.part);
            self.part.clear();
            let keys = Key::ALL.iter().enumerate().map(|(at, key)| (FIRST_KEY + at as u64, key.name()));
            for (id, name) in std::iter::once((TASK, "task")).chain(keys) {
                self.part.message(interned::ANNOTATION_NAMES, &name_of(id, name));
            }
            self.packet.message(packet::INTERNED, &self.part);
        }
    }
}

fn name_of(id: u64, name: &str) -> Message {
    let mut message = Message::default();
    message.varint(named::IID, id);
    message.text(named::NAME, name);
    message
}

impl<W: Write> Canvas for PerfettoCanvas<W> {
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
        self.start_packet(at_ns);
        let name = slice.name as usize;
        // Number 0 means no name in the format, so they are counted from 1.
        let iid = u64::from(slice.name) + 1;
        if self.interned_on[name] != self.tracks {
            self.interned_on[name] = self.tracks;
            self.part.clear();
            self.part.message(interned::EVENT_NAMES, &name_of(iid, &self.names[name]));
            self.packet.message(packet::INTERNED, &self.part);
        }
        self.event.clear();
        self.event.varint(event::TYPE, event::SLICE_BEGIN);
        self.event.varint(event::NAME_IID, iid);
        if let Some(word) = slice.task {
            self.part.clear();
            self.part.varint(annotation::NAME_IID, TASK);
            self.part.task(annotation::TEXT, TaskId::from_word(word).0);
            self.event.message(event::ANNOTATIONS, &self.part);
        }
        for (key, value) in slice.facts {
            self.part.clear();
            self.part.varint(annotation::NAME_IID, FIRST_KEY + *key as u64);
            self.part.varint(annotation::UINT, *value);
            self.event.message(event::ANNOTATIONS, &self.part);
        }
        for flow in slice.flows_out {
            self.event.fixed64(event::FLOWS, *flow);
        }
        for flow in slice.flows_in {
            self.event.fixed64(event::TERMINATING_FLOWS, *flow);
        }
        self.packet.message(packet::TRACK_EVENT, &self.event);
        self.packet.write_packet(&mut self.out)
    }

    #[inline]
    fn end(&mut self, at_ns: u64) -> io::Result<()> {
        self.start_packet(at_ns);
        self.event.clear();
        self.event.varint(event::TYPE, event::SLICE_END);
        self.packet.message(packet::TRACK_EVENT, &self.event);
        self.packet.write_packet(&mut self.out)
    }

    fn value(&mut self, at_ns: u64, value: u64) -> io::Result<()> {
        self.start_packet(at_ns);
        self.event.clear();
        self.event.varint(event::TYPE, event::COUNTER);
        self.event.varint(event::COUNTER_VALUE, value);
        self.packet.message(packet::TRACK_EVENT, &self.event);
        self.packet.write_packet(&mut self.out)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
