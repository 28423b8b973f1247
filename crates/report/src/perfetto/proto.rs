//! As much of protocol buffers as a Perfetto trace needs: field numbers and an encoder.

use std::io::{self, Write};

use plimsoll_abi::TaskId;

/// `TracePacket`.
pub(super) mod packet {
    pub(in super::super) const TIMESTAMP: u32 = 8;
    pub(in super::super) const SEQUENCE: u32 = 10;
    pub(in super::super) const TRACK_EVENT: u32 = 11;
    pub(in super::super) const INTERNED: u32 = 12;
    pub(in super::super) const SEQUENCE_FLAGS: u32 = 13;
    pub(in super::super) const DEFAULTS: u32 = 59;
    pub(in super::super) const TRACK_DESCRIPTOR: u32 = 60;
    /// A field of `TracePacketDefaults`.
    pub(in super::super) const TRACK_EVENT_DEFAULTS: u32 = 11;
    pub(in super::super) const STATE_CLEARED: u64 = 1;
    pub(in super::super) const NEEDS_STATE: u64 = 2;
}

/// `TrackDescriptor`.
pub(super) mod track {
    pub(in super::super) const UUID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
    pub(in super::super) const PARENT_UUID: u32 = 5;
    pub(in super::super) const COUNTER: u32 = 8;
    pub(in super::super) const CHILD_ORDERING: u32 = 11;
    pub(in super::super) const SIBLING_ORDER_RANK: u32 = 12;
    /// Children in order of their ranks.
    pub(in super::super) const EXPLICIT: u64 = 3;
}

/// `CounterDescriptor`.
pub(super) mod counter {
    pub(in super::super) const UNIT: u32 = 3;
    pub(in super::super) const COUNT: u64 = 2;
    pub(in super::super) const BYTES: u64 = 3;
}

/// `TrackEvent`; its defaults number the track alike.
pub(super) mod event {
    pub(in super::super) const ANNOTATIONS: u32 = 4;
    pub(in super::super) const TYPE: u32 = 9;
    pub(in super::super) const NAME_IID: u32 = 10;
    pub(in super::super) const TRACK_UUID: u32 = 11;
    pub(in super::super) const COUNTER_VALUE: u32 = 30;
    pub(in super::super) const FLOWS: u32 = 47;
    pub(in super::super) const TERMINATING_FLOWS: u32 = 48;
    pub(in super::super) const SLICE_BEGIN: u64 = 1;
    pub(in super::super) const SLICE_END: u64 = 2;
    pub(in super::super) const COUNTER: u64 = 4;
}

/// `DebugAnnotation`.
pub(super) mod annotation {
    pub(in super::super) const NAME_IID: u32 = 1;
    pub(in super::super) const UINT: u32 = 3;
    pub(in super::super) const TEXT: u32 = 6;
}

/// `InternedData`.
pub(super) mod interned {
    pub(in super::super) const EVENT_NAMES: u32 = 2;
    pub(in super::super) const ANNOTATION_NAMES: u32 = 3;
}

/// `EventName` and `DebugAnnotationName`.
pub(super) mod named {
    pub(in super::super) const IID: u32 = 1;
    pub(in super::super) const NAME: u32 = 2;
}

/// `Trace.packet`.
const PACKET: u32 = 1;
/// Bytes after which packets are written out: few enough to stay in the cache until then.
const WORTH_A_WRITE: usize = 16 << 10;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// Packets being written, one after the other in place: a message inside another is opened, filled and closed. Kept and
/// emptied, so that events allocate nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Packets {
    bytes: Vec<u8>,
}

/// An open message: where its length will stand.
#[derive(Debug)]
#[must_use = "a message that is not closed has no length"]
pub(super) struct Open(usize);

impl Packets {
    #[inline]
    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    #[inline]
    pub(super) fn varint(&mut self, field: u32, value: u64) {
        self.raw(u64::from(field << 3 | VARINT));
        self.raw(value);
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.raw(u64::from(field << 3 | FIXED64));
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.raw(u64::from(field << 3 | BYTES));
        self.raw(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Opens a packet of the trace.
    #[inline]
    pub(super) fn packet(&mut self) -> Open {
        self.open(PACKET)
    }

    /// Opens a message. Nearly all are so short that one byte is enough for their length.
    #[inline]
    pub(super) fn open(&mut self, field: u32) -> Open {
        self.raw(u64::from(field << 3 | BYTES));
        self.bytes.push(0);
        Open(self.bytes.len())
    }

    /// Closes a message.
    #[inline]
    pub(super) fn close(&mut self, open: Open) {
        let Open(from) = open;
        let mut len = self.bytes.len() - from;
        let mut at = from - 1;
        while len >= 0x80 {
            self.bytes[at] = len as u8 | 0x80;
            at += 1;
            self.bytes.insert(at, 0);
            len >>= 7;
        }
        self.bytes[at] = len as u8;
    }

    /// A task's id as people read it, without the detour over a formatter: every slice has one.
    #[inline]
    pub(super) fn task(&mut self, field: u32, task: TaskId) {
        let mut text = [0; 16];
        let mut at = text.len();
        at = digits(&mut text, at, task.local());
        at -= 1;
        text[at] = b't';
        at = digits(&mut text, at, u32::from(task.ring()));
        at -= 1;
        text[at] = b'r';
        self.raw(u64::from(field << 3 | BYTES));
        self.raw((text.len() - at) as u64);
        self.bytes.extend_from_slice(&text[at..]);
    }

    /// Writes the packets out once they are worth a write; all of them must be closed.
    #[inline]
    pub(super) fn drain(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.bytes.len() < WORTH_A_WRITE { Ok(()) } else { self.drain_all(out) }
    }

    /// Writes the packets out; all of them must be closed.
    pub(super) fn drain_all(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

/// Writes decimal digits that end before `at`; gives the place of the first.
#[inline]
fn digits(text: &mut [u8; 16], mut at: usize, mut value: u32) -> usize {
    loop {
        at -= 1;
        text[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_read_as_elsewhere() {
        for task in [TaskId::new(0, 0), TaskId::new(2, 17), TaskId::new(255, u32::MAX)] {
            let mut message = Packets::default();
            message.task(6, task);
            assert_eq!(&message.bytes[2..], task.to_string().as_bytes());
            assert_eq!(message.bytes[1] as usize, message.bytes.len() - 2);
        }
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for len in [0usize, 1, 127, 128, 16_383, 16_384, 70_000] {
            let mut packets = Packets::default();
            let open = packets.packet();
            packets.bytes.extend(vec![7; len]);
            packets.close(open);
            let mut expected = Packets::default();
            expected.text(PACKET, &"\u{7}".repeat(len));
            assert_eq!(packets.bytes, expected.bytes, "{len}");
        }
    }
}
