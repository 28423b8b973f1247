//! Numbers of foreign files: plain, or as strings where they may pass 2^53.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A number that fits 64 bits, in either form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Number(pub(super) u64);

impl<'de> Deserialize<'de> for Number {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not negative, or one as a string")
    }

    #[inline]
    fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
        // Some writers print whole numbers with a fraction; anything else is not a count of anything.
        if value >= 0.0 && value < u64::MAX as f64 && value.fract() == 0.0 {
            Ok(Number(value as u64))
        } else {
            Err(E::custom(format_args!("{value} is no whole number of 64 bits")))
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map(Number).map_err(|_| E::custom(format_args!("{text:?} is no number of 64 bits")))
    }
}
