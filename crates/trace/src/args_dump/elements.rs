//! How the elements of a captured tensor are stored, and what they are as numbers.

/// How an element is stored, little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementForm {
    /// A float of 8, 4 or 2 bytes (IEEE).
    Float(usize),
    /// bfloat16.
    Brain,
    /// An integer of 8, 4, 2 or 1 bytes.
    Signed(usize),
    /// The same without a sign.
    Unsigned(usize),
    /// A truth value.
    Bool,
}

/// Spelling of the reference and of people.
const NAMES: [(&str, &str, ElementForm); 13] = [
    ("FLOAT64", "f64", ElementForm::Float(8)),
    ("FLOAT32", "f32", ElementForm::Float(4)),
    ("FLOAT16", "f16", ElementForm::Float(2)),
    ("BFLOAT16", "bf16", ElementForm::Brain),
    ("INT64", "i64", ElementForm::Signed(8)),
    ("INT32", "i32", ElementForm::Signed(4)),
    ("INT16", "i16", ElementForm::Signed(2)),
    ("INT8", "i8", ElementForm::Signed(1)),
    ("UINT64", "u64", ElementForm::Unsigned(8)),
    ("UINT32", "u32", ElementForm::Unsigned(4)),
    ("UINT16", "u16", ElementForm::Unsigned(2)),
    ("UINT8", "u8", ElementForm::Unsigned(1)),
    ("BOOL", "bool", ElementForm::Bool),
];

/// A type's name as people write it; what nobody knows stays as it is.
pub(super) fn spelt(reference: &str) -> String {
    let known = NAMES.iter().find(|(name, ..)| *name == reference);
    known.map_or_else(|| reference.to_owned(), |(_, name, _)| (*name).to_owned())
}

impl ElementForm {
    /// By the name that people write.
    pub fn of(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known, _)| *known == name).map(|(.., form)| *form)
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            ElementForm::Float(bytes) | ElementForm::Signed(bytes) | ElementForm::Unsigned(bytes) => bytes,
            ElementForm::Brain => 2,
            ElementForm::Bool => 1,
        }
    }

    /// Whether an element can be infinite, or no number.
    pub fn is_float(self) -> bool {
        matches!(self, ElementForm::Float(_) | ElementForm::Brain)
    }

    /// The elements as numbers. Integers beyond 2^53 are rounded.
    pub fn numbers(self, bytes: &[u8]) -> impl Iterator<Item = f64> {
        bytes.chunks_exact(self.bytes()).map(move |element| self.number(element))
    }

    fn number(self, element: &[u8]) -> f64 {
        let mut word = [0; 8];
        word[..element.len()].copy_from_slice(element);
        let word = u64::from_le_bytes(word);
        match self {
            ElementForm::Float(8) => f64::from_bits(word),
            ElementForm::Float(4) => f32::from_bits(word as u32).into(),
            ElementForm::Float(_) => half(word as u16),
            ElementForm::Brain => f32::from_bits((word as u32) << 16).into(),
            ElementForm::Signed(bytes) => {
                let unused = 64 - 8 * bytes as u32;
                ((word << unused) as i64 >> unused) as f64
            }
            ElementForm::Unsigned(_) => word as f64,
            ElementForm::Bool => f64::from(u8::from(word != 0)),
        }
    }
}

/// A float of half precision.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: &str, bytes: &[u8]) -> Vec<f64> {
        ElementForm::of(name).expect("known").numbers(bytes).collect()
    }

    #[test]
    fn elements_of_every_form_are_the_numbers_they_stand_for() {
        assert_eq!(numbers("f64", &1.5f64.to_le_bytes()), [1.5]);
        assert_eq!(numbers("f32", &[-2.0f32, f32::INFINITY].map(f32::to_le_bytes).concat()), [-2.0, f64::INFINITY]);
        assert_eq!(
            numbers("f16", &[0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0x00, 0x7c]),
            [1.0, -2.0, 2f64.powi(-24), f64::INFINITY]
        );
        assert!(numbers("f16", &[0x01, 0x7c])[0].is_nan());
        assert_eq!(numbers("bf16", &[0x80, 0x3f]), [1.0]);
        assert_eq!(numbers("i8", &[0xff, 0x7f]), [-1.0, 127.0]);
        assert_eq!(numbers("i64", &(-7i64).to_le_bytes()), [-7.0]);
        assert_eq!(numbers("u16", &[0xff, 0xff]), [65535.0]);
        assert_eq!(numbers("bool", &[0, 3]), [0.0, 1.0]);
        assert_eq!(ElementForm::of("COMPLEX64"), None);
        assert_eq!((spelt("FLOAT32").as_str(), spelt("COMPLEX64").as_str()), ("f32", "COMPLEX64"));
    }
}
