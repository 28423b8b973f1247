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
    /// Of `TracePacketDefaults`.
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

/// `Trace.packet`, with its wire type.
const PACKET_TAG: u8 = 1 << 3 | BYTES as u8;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// A message being written. Kept and cleared, so that events allocate nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

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

    #[inline]
    fn block(&mut self, field: u32, bytes: &[u8]) {
        self.raw(u64::from(field << 3 | BYTES));
        self.raw(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.block(field, text.as_bytes());
    }

    #[inline]
    pub(super) fn message(&mut self, field: u32, message: &Message) {
        self.block(field, &message.bytes);
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
        self.block(field, &text[at..]);
    }

    /// Writes the message as one packet of a trace.
    #[inline]
    pub(super) fn write_packet(&self, out: &mut impl Write) -> io::Result<()> {
        let mut head = [PACKET_TAG; 6];
        let mut len = 1;
        let mut value = self.bytes.len() as u32;
        while value >= 0x80 {
            head[len] = value as u8 | 0x80;
            value >>= 7;
            len += 1;
        }
        head[len] = value as u8;
        out.write_all(&head[..len + 1])?;
        out.write_all(&self.bytes)
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
            let mut message = Message::default();
            message.task(6, task);
            assert_eq!(&message.bytes[2..], task.to_string().as_bytes());
            assert_eq!(message.bytes[1] as usize, message.bytes.len() - 2);
        }
    }
}
