//! The name of a result set, for people to find it by. Identity lies in the columns, never in the name.

use jiff::civil::Date;

use crate::row::{Backend, HarnessKind};

// Together with the date, the fixed words, a number and the longest ending they stay under 255 bytes.
const HARDWARE_MAX: usize = 40;
const SUFFIX_MAX: usize = 60;
const MODEL_MAX: usize = 80;
const GIVEN_MAX: usize = 200;

/// What a result set of a run holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetKind {
    /// The checkpoints of the sweep; the name begins with the backend.
    Sweep,
    /// The control rows of the sweep; the name begins with `control_` and the backend.
    Control,
    /// The same checkpoints in the reference runtime; the name begins with `pylm`.
    Reference,
}

/// The parts of `{backend}_{hw}[_vlm]_{YYYY-MM-DD}[_{suffix}][_single_{model}]`.
#[derive(Debug, Clone)]
pub struct FileName {
    /// Backend MLX ran on.
    pub backend: Backend,
    /// Short name of the hardware, for example `m1ultra`.
    pub hw: String,
    /// Local day on which the run began.
    pub date: Date,
    /// A word that tells this set from others of the day.
    pub suffix: Option<String>,
    /// The model, for a run of one.
    pub single_model: Option<String>,
    /// Kind of measurement.
    pub harness: HarnessKind,
    /// What the set holds.
    pub kind: SetKind,
    /// A name that takes the place of all parts but the kind.
    pub given: Option<String>,
}

impl FileName {
    /// The name without an ending: letters, digits, `.`, `-` and `_` only.
    pub fn stem(&self) -> String {
        if let Some(given) = &self.given {
            let given = slug(given, GIVEN_MAX);
            return match self.kind {
                SetKind::Sweep => given,
                SetKind::Control => format!("control_{given}"),
                SetKind::Reference => format!("pylm_{given}"),
            };
        }
        let prefix = match self.kind {
            SetKind::Sweep => self.backend.to_string(),
            SetKind::Control => format!("control_{}", self.backend),
            SetKind::Reference => "pylm".to_owned(),
        };
        let mut stem = format!("{prefix}_{}", slug(&self.hw.to_lowercase(), HARDWARE_MAX));
        if self.harness == HarnessKind::Vlm {
            stem.push_str("_vlm");
        }
        stem.push('_');
        stem.push_str(&self.date.to_string());
        if let Some(suffix) = self.suffix.as_ref().filter(|suffix| !suffix.is_empty()) {
            stem.push('_');
            stem.push_str(&slug(suffix, SUFFIX_MAX));
        }
        if let Some(model) = &self.single_model {
            stem.push_str("_single_");
            stem.push_str(&slug(model, MODEL_MAX));
        }
        stem
    }
}

/// No separators, no spaces, no leading dot, never empty.
fn slug(text: &str, max: usize) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }
    };
    let slug: String = text.trim().trim_start_matches('.').chars().map(keep).take(max).collect();
    if slug.is_empty() { "unknown".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> FileName {
        FileName {
            backend: Backend::Metal,
            hw: "M1Ultra".to_owned(),
            date: Date::constant(2026, 11, 29),
            suffix: None,
            single_model: None,
            harness: HarnessKind::Text,
            kind: SetKind::Sweep,
            given: None,
        }
    }

    #[test]
    fn control_rows_and_the_reference_have_names_of_their_own() {
        let of = |kind, given: Option<&str>| {
            FileName { kind, given: given.map(str::to_owned), suffix: Some("x".to_owned()), ..name() }.stem()
        };
        assert_eq!(of(SetKind::Control, None), "control_metal_m1ultra_2026-11-29_x");
        assert_eq!(of(SetKind::Reference, None), "pylm_m1ultra_2026-11-29_x");
        assert_eq!(of(SetKind::Sweep, Some("my run")), "my_run");
        assert_eq!(of(SetKind::Reference, Some("my run")), "pylm_my_run");
    }

    #[test]
    fn follows_the_order_of_the_historical_names() {
        assert_eq!(name().stem(), "metal_m1ultra_2026-11-29");
        let full = FileName {
            suffix: Some("post reboot".to_owned()),
            single_model: Some("LFM2-350M-8bit".to_owned()),
            harness: HarnessKind::Vlm,
            ..name()
        };
        assert_eq!(full.stem(), "metal_m1ultra_vlm_2026-11-29_post_reboot_single_LFM2-350M-8bit");
        let processor = FileName { hw: "Xeon, Gold/6430 @ 2".to_owned(), backend: Backend::Cpu, ..name() };
        assert_eq!(processor.stem(), "cpu_xeon__gold_6430___2_2026-11-29");
    }

    proptest! {
        #[test]
        fn no_part_leaves_the_folder_or_overruns_the_name(
            hw in "(?s).{0,300}", suffix in "(?s).{0,300}", model in "(?s).{0,300}"
        ) {
            let stem = FileName { hw, suffix: Some(suffix), single_model: Some(model), ..name() }.stem();
            prop_assert!(stem.len() <= 220, "{} bytes", stem.len());
            prop_assert!(stem.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "{stem}");
        }
    }
}
