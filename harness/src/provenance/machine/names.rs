//! Names of hardware: the `hardware` column, and the short form in file names.

/// Chips with a short name of their own, as the historical files spell them: what the hardware string
/// contains, in lower case and without separators, and the name. Longer ones first where one contains
/// another.
const SHORT: [(&str, &str); 27] = [
    ("m1ultra", "m1ultra"),
    ("m1max", "m1max"),
    ("m1pro", "m1pro"),
    ("m2ultra", "m2ultra"),
    ("m2max", "m2max"),
    ("m2pro", "m2pro"),
    ("m3ultra", "m3ultra"),
    ("m3max", "m3max"),
    ("m3pro", "m3pro"),
    ("m4ultra", "m4ultra"),
    ("m4max", "m4max"),
    ("m4pro", "m4pro"),
    ("m5ultra", "m5ultra"),
    ("m5max", "m5max"),
    ("m5pro", "m5pro"),
    ("applem1", "m1"),
    ("applem2", "m2"),
    ("applem3", "m3"),
    ("applem4", "m4"),
    ("applem5", "m5"),
    ("gb10", "gb10"),
    ("gh200", "gh200"),
    ("h200", "h200"),
    ("h100", "h100"),
    ("a100", "a100"),
    ("b200", "b200"),
    ("v100", "v100"),
];
/// Longest short name made from the hardware string.
const LONGEST: usize = 20;

/// `<chip>_<memory>GB`, with `_` for spaces; the memory in units of 2^30 bytes, rounded.
pub fn hardware_string(chip: &str, memory_bytes: Option<u64>) -> Option<String> {
    let chip = chip.split_whitespace().collect::<Vec<_>>().join("_");
    if chip.is_empty() {
        return None;
    }
    Some(match memory_bytes {
        Some(bytes) => format!("{chip}_{}GB", (bytes as f64 / f64::from(1 << 30)).round()),
        None => chip,
    })
}

/// The short name for file names: of well-known chips their own, else the hardware string in lower case,
/// without what file names should not hold, cut to 20 characters.
pub fn short_name(hardware: &str) -> String {
    let letters: String =
        hardware.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    if let Some((_, name)) = SHORT.iter().find(|(contained, _)| letters.contains(contained)) {
        return (*name).to_owned();
    }
    let slug: String = hardware
        .to_lowercase()
        .chars()
        .map(
            |character| {
                if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '_' }
            },
        )
        .take(LONGEST)
        .collect();
    let slug = slug.trim_matches(['_', '.', '-']);
    if slug.is_empty() { "unknown".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_chip_and_memory() {
        assert_eq!(hardware_string("Apple M5 Max", Some(128 << 30)).as_deref(), Some("Apple_M5_Max_128GB"));
        // A system that keeps some of its memory to itself still shows the module size.
        assert_eq!(hardware_string("AMD EPYC", Some(25_160_000_000)).as_deref(), Some("AMD_EPYC_23GB"));
        assert_eq!(hardware_string(" ", Some(1)), None);
    }

    #[test]
    fn short_names_are_those_of_the_historical_files() {
        for (hardware, name) in [
            ("Apple_M5_Max_128GB", "m5max"),
            ("Apple_M1_Ultra_128GB", "m1ultra"),
            ("Apple_M2_16GB", "m2"),
            ("NVIDIA_GB10_CUDA13.0_119GB", "gb10"),
            ("NVIDIA_H200_128GB", "h200"),
            ("NVIDIA_GH200_480GB", "gh200"),
            ("AMD_EPYC_24GB", "amd_epyc_24gb"),
            ("Intel,Xeon_Platinum_8481C_16GB", "intel_xeon_platinum"),
            ("///", "unknown"),
        ] {
            assert_eq!(short_name(hardware), name, "{hardware}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_short_name_is_always_a_plain_file_name_part(hardware in ".{0,60}") {
            let name = short_name(&hardware);
            proptest::prop_assert!((1..=LONGEST).contains(&name.len()));
            let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
            proptest::prop_assert!(name.chars().all(plain));
        }
    }
}
