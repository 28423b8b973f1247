//! Numbers of foreign files: plain, or as strings where they may pass 2^53.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A number that fits 64 bits, in either form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct JsonNumber(pub(crate) u64);

impl<'de> Deserialize<'de> for JsonNumber {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = JsonNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not negative, or one as a string")
    }

    #[inline]
    fn visit_u64<E: Error>(self, value: u64) -> Result<JsonNumber, E> {
        Ok(JsonNumber(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<JsonNumber, E> {
        // Some writers print whole numbers with a fraction; anything else is not a count of anything.
        if value >= 0.0 && value < u64::MAX as f64 && value.fract() == 0.0 {
            Ok(JsonNumber(value as u64))
        } else {
            Err(E::custom(format_args!("{value} is no whole number of 64 bits")))
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<JsonNumber, E> {
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map(JsonNumber).map_err(|_| E::custom(format_args!("{text:?} is no number of 64 bits")))
    }
}
