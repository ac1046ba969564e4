//! The name of a result set, for people to find it by. Identity lies in the columns, never in the name.

use jiff::civil::Date;

use crate::row::{Backend, HarnessKind};

// Together with the date, the fixed words, a number and the longest ending they stay under 255 bytes.
const HARDWARE_MAX: usize = 40;
const SUFFIX_MAX: usize = 60;
const MODEL_MAX: usize = 80;

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
}

impl FileName {
    /// The name without an ending: letters, digits, `.`, `-` and `_` only.
    pub fn stem(&self) -> String {
        let mut stem = format!("{}_{}", self.backend, slug(&self.hw.to_lowercase(), HARDWARE_MAX));
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
        }
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
