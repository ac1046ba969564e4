//! The text form of one field, and its JSON form.
//!
//! An unknown is an empty cell and JSON null. Times in milliseconds are written to the nanosecond, digit by digit, so
//! that no rounding stands between a file and the clock.

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::Value;

use crate::row::{Backend, BuildType, EosPolicy, HarnessKind, QuietGate};
use crate::status::Status;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// A value that fills one cell.
pub(super) trait Cell: Sized {
    /// The text; never empty unless the value is an unknown (or the status of a valid row).
    fn write(&self) -> String;

    /// The value a text stands for, or a complaint.
    fn read(text: &str) -> Result<Self, String>;

    /// The JSON form.
    fn json(&self) -> Value;
}

impl<T: Cell> Cell for Option<T> {
    fn write(&self) -> String {
        self.as_ref().map_or_else(String::new, Cell::write)
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::read(text).map(Some) }
    }

    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Cell::json)
    }
}

impl Cell for String {
    fn write(&self) -> String {
        self.clone()
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("empty, but every row has one".to_owned()) } else { Ok(text.to_owned()) }
    }

    fn json(&self) -> Value {
        Value::from(self.as_str())
    }
}

impl Cell for f64 {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Result<Self, String> {
        match text.parse::<Self>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(format!("`{text}` is not a number of zero or more")),
        }
    }

    fn json(&self) -> Value {
        Value::from(*self)
    }
}

impl Cell for bool {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
    }

    fn json(&self) -> Value {
        Value::from(*self)
    }
}

macro_rules! whole_number_cells {
    ($($type:ty),+) => {
        $(impl Cell for $type {
            fn write(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Result<Self, String> {
                let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|_| digits_only).ok_or_else(|| {
                    format!("`{text}` is not a whole number from 0 to {}", Self::MAX)
                })
            }

            fn json(&self) -> Value {
                Value::from(*self)
            }
        })+
    };
}

whole_number_cells!(u8, u32, u64);

/// Values whose text form is their `Display` and `FromStr`.
macro_rules! text_cells {
    ($($type:ty),+) => {
        $(impl Cell for $type {
            fn write(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Result<Self, String> {
                text.parse::<Self>().map_err(|error| error.to_string())
            }

            fn json(&self) -> Value {
                Value::from(self.to_string())
            }
        })+
    };
}

text_cells!(Status, HarnessKind, Backend, BuildType, EosPolicy, QuietGate);

impl Cell for Date {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .ok()
            .filter(|date: &Self| date.to_string() == text)
            .ok_or_else(|| format!("`{text}` is not a date such as 2026-01-31"))
    }

    fn json(&self) -> Value {
        Value::from(self.to_string())
    }
}

impl Cell for Timestamp {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is not a time such as 2026-01-31T12:00:00Z"))
    }

    fn json(&self) -> Value {
        Value::from(self.to_string())
    }
}

/// Nanoseconds, written as milliseconds with six decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Millis(pub(super) u64);

impl Cell for Millis {
    fn write(&self) -> String {
        format!("{}.{:06}", self.0 / NANOS_PER_MILLI, self.0 % NANOS_PER_MILLI)
    }

    fn read(text: &str) -> Result<Self, String> {
        let complaint = || format!("`{text}` is not a time in milliseconds with at most six decimals");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
            return Err(complaint());
        }
        let fraction: u64 = format!("{fraction:0<6}").parse().map_err(|_| complaint())?;
        whole
            .parse::<u64>()
            .ok()
            .and_then(|millis| millis.checked_mul(NANOS_PER_MILLI)?.checked_add(fraction))
            .map(Self)
            .ok_or_else(complaint)
    }

    fn json(&self) -> Value {
        Value::from(self.0 as f64 / NANOS_PER_MILLI as f64)
    }
}

/// A rate in tokens a second, written with six decimals for the eye; the counts and times beside it are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate(pub(super) f64);

impl Rate {
    /// Whether the written rate is this one, but for the rounding of six decimals.
    pub(super) fn is_about(self, exact: f64) -> bool {
        (self.0 - exact).abs() <= 1e-6 + exact.abs() * 1e-12
    }
}

impl Cell for Rate {
    fn write(&self) -> String {
        format!("{:.6}", self.0)
    }

    fn read(text: &str) -> Result<Self, String> {
        f64::read(text).map(Self)
    }

    fn json(&self) -> Value {
        Value::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn milliseconds_keep_every_nanosecond(nanos: u64) {
            prop_assert_eq!(Millis::read(&Millis(nanos).write()), Ok(Millis(nanos)));
        }

        #[test]
        fn numbers_read_back_as_they_were(number in 0.0_f64..f64::MAX) {
            prop_assert_eq!(f64::read(&number.write()).map(f64::to_bits), Ok(number.to_bits()));
        }

        #[test]
        fn no_text_makes_a_cell_panic(text in "(?s).{0,24}") {
            let _ = Millis::read(&text);
            let _ = Rate::read(&text);
            let _ = u32::read(&text);
            let _ = Date::read(&text);
            let _ = Timestamp::read(&text);
            let _ = Status::read(&text);
        }
    }

    #[test]
    fn milliseconds_are_read_with_fewer_decimals_too() {
        assert_eq!(Millis::read("263.61"), Ok(Millis(263_610_000)));
        assert_eq!(Millis::read("7"), Ok(Millis(7_000_000)));
        for text in ["", ".5", "1.", "-1", "1e3", "0.0000001", "99999999999999999999"] {
            assert!(Millis::read(text).is_err(), "{text:?} was read as a time");
        }
    }

    #[test]
    fn refuses_numbers_in_dress() {
        assert!(u64::read("+5").is_err());
        assert!(u64::read("5.0").is_err());
        assert!(u8::read("256").is_err());
        assert!(f64::read("NaN").is_err());
        assert!(f64::read("inf").is_err());
        assert!(f64::read("-0.5").is_err());
        assert!(Date::read("20260131").is_err());
    }
}
