//! A decoder of Perfetto traces that shares nothing with the encoder: fields are looked up by number in raw messages.

use std::collections::{BTreeMap, HashMap};

/// A field of a message.
enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// Takes a message apart; panics on bytes that are none.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Number(u64::from_le_bytes(number.try_into().expect("eight bytes")))
            }
            2 => {
                let len = varint(&mut bytes) as usize;
                let (block, rest) = bytes.split_at(len);
                bytes = rest;
                Value::Bytes(block)
            }
            other => panic!("wire type {other}"),
        };
        out.push((key >> 3, value));
    }
    out
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits");
}

fn number(message: &[(u64, Value<'_>)], field: u64) -> Option<u64> {
    message.iter().find_map(|(f, v)| match v {
        Value::Number(n) if *f == field => Some(*n),
        _ => None,
    })
}

fn numbers(message: &[(u64, Value<'_>)], field: u64) -> Vec<u64> {
    let all = message.iter().filter(|(f, _)| *f == field);
    all.filter_map(|(_, v)| if let Value::Number(n) = v { Some(*n) } else { None }).collect()
}

fn blocks<'b>(message: &'b [(u64, Value<'b>)], field: u64) -> impl Iterator<Item = &'b [u8]> {
    message.iter().filter(move |(f, _)| *f == field).filter_map(|(_, v)| match v {
        Value::Bytes(b) => Some(*b),
        Value::Number(_) => None,
    })
}

fn text(message: &[(u64, Value<'_>)], field: u64) -> Option<String> {
    blocks(message, field).next().map(|b| String::from_utf8(b.to_vec()).expect("text"))
}

#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub name: String,
    pub parent: Option<u64>,
    pub rank: u64,
    pub is_counter: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    Begin,
    End,
    Counter,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub track: u64,
    pub at: u64,
    pub kind: EventKind,
    pub name: Option<String>,
    pub value: Option<u64>,
    pub flows: Vec<u64>,
    pub terminating: Vec<u64>,
    pub annotations: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PerfettoFile {
    pub tracks: BTreeMap<u64, Track>,
    pub events: Vec<Event>,
}

/// What a packet sequence remembers.
#[derive(Default)]
struct Sequence {
    track: Option<u64>,
    names: HashMap<u64, String>,
    keys: HashMap<u64, String>,
}

impl PerfettoFile {
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut file = Self::default();
        let mut sequences: HashMap<u64, Sequence> = HashMap::new();
        for (field, packet) in fields(bytes) {
            let Value::Bytes(packet) = packet else { panic!("a packet is a message") };
            assert_eq!(field, 1);
            let packet = fields(packet);
            if let Some(descriptor) = blocks(&packet, 60).next() {
                file.describe(&fields(descriptor));
            }
            if let Some(event) = blocks(&packet, 11).next() {
                let sequence = sequences.entry(number(&packet, 10).expect("a sequence")).or_default();
                sequence.update(&packet);
                file.events.push(sequence.event(number(&packet, 8).expect("a time"), &fields(event)));
            }
        }
        file
    }

    fn describe(&mut self, descriptor: &[(u64, Value<'_>)]) {
        let track = Track {
            name: text(descriptor, 2).expect("a name"),
            parent: number(descriptor, 5),
            rank: number(descriptor, 12).unwrap_or(0),
            is_counter: blocks(descriptor, 8).next().is_some(),
        };
        assert!(track.parent.is_none_or(|p| self.tracks.contains_key(&p)), "a parent comes first");
        assert!(self.tracks.insert(number(descriptor, 1).expect("a uuid"), track).is_none(), "described twice");
    }

    /// The groups, top to bottom.
    pub(crate) fn groups(&self) -> Vec<&Track> {
        let (root, _) = self.tracks.iter().find(|(_, t)| t.parent.is_none()).expect("a root");
        let mut groups: Vec<&Track> = self.tracks.values().filter(|t| t.parent == Some(*root)).collect();
        groups.sort_by_key(|t| t.rank);
        groups
    }
}

impl Sequence {
    fn update(&mut self, packet: &[(u64, Value<'_>)]) {
        let flags = number(packet, 13).expect("events lean on state");
        if flags & 1 != 0 {
            *self = Self::default();
        }
        for defaults in blocks(packet, 59).map(fields) {
            self.track = blocks(&defaults, 11).next().and_then(|d| number(&fields(d), 11));
        }
        for interned in blocks(packet, 12).map(fields) {
            for (field, into) in [(2, &mut self.names), (3, &mut self.keys)] {
                for entry in blocks(&interned, field).map(fields) {
                    into.insert(number(&entry, 1).expect("a number"), text(&entry, 2).expect("a name"));
                }
            }
        }
    }

    fn event(&self, at: u64, event: &[(u64, Value<'_>)]) -> Event {
        let annotations = blocks(event, 4).map(fields).map(|a| {
            let key = self.keys[&number(&a, 1).expect("a key")].clone();
            (key, text(&a, 6).unwrap_or_else(|| number(&a, 3).expect("a value").to_string()))
        });
        Event {
            track: self.track.expect("a default track"),
            at,
            kind: match number(event, 9) {
                Some(1) => EventKind::Begin,
                Some(2) => EventKind::End,
                Some(4) => EventKind::Counter,
                other => panic!("an event of type {other:?}"),
            },
            name: number(event, 10).map(|iid| self.names[&iid].clone()),
            value: number(event, 30),
            flows: numbers(event, 47),
            terminating: numbers(event, 48),
            annotations: annotations.collect(),
        }
    }
}
