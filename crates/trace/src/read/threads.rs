//! The shape of phases in all of the reference's forms: a list per thread of objects.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// Gives every object, with its thread's number, to a function; yields the number of threads.
pub(super) struct Threads<'f, P>(pub(super) &'f mut dyn FnMut(u16, P));

impl<'de, P: Deserialize<'de>> DeserializeSeed<'de> for Threads<'_, P> {
    type Value = u16;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u16, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, P: Deserialize<'de>> Visitor<'de> for Threads<'_, P> {
    type Value = u16;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list per thread of phases")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u16, A::Error> {
        let mut thread = 0u16;
        while seq.next_element_seed(Thread(thread, &mut *self.0))?.is_some() {
            if thread == u16::MAX - 1 {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
            thread += 1;
        }
        Ok(thread)
    }
}

struct Thread<'f, P>(u16, &'f mut dyn FnMut(u16, P));

impl<'de, P: Deserialize<'de>> DeserializeSeed<'de> for Thread<'_, P> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, P: Deserialize<'de>> Visitor<'de> for Thread<'_, P> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a thread's list of phases")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(phase) = seq.next_element::<P>()? {
            (self.1)(self.0, phase);
        }
        Ok(())
    }
}
