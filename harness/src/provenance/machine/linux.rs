//! Linux: the processor's name from `/proc/cpuinfo`.

/// The processor's model. Arm kernels give numbers instead of names; those are turned into words where they
/// are well known.
pub(super) fn processor(cpuinfo: &str) -> Option<String> {
    // The first core stands for all.
    let field = |wanted: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields
            .find(|(name, _)| name.trim() == wanted)
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    };
    if let Some(name) = ["model name", "Model", "Hardware"].into_iter().find_map(field) {
        return Some(tidy(name));
    }
    let part = field("CPU part")?;
    let maker = match field("CPU implementer")? {
        "0x41" => "ARM",
        "0x4e" => "NVIDIA",
        "0x51" => "Qualcomm",
        "0x61" => "Apple",
        "0xc0" => "Ampere",
        other => other,
    };
    Some(format!("{maker} {part}"))
}

/// Without marks and the clock, which say nothing of the model.
fn tidy(name: &str) -> String {
    let name = name.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
    let name = name.split(" @ ").next().unwrap_or_default();
    name.split_whitespace()
        .filter(|word| *word != "CPU" && *word != "Processor")
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_without_marks_or_clock() {
        let text = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz\n\n\
                    processor\t: 1\nmodel name\t: other\n";
        assert_eq!(processor(text).as_deref(), Some("Intel Xeon Platinum 8481C"));
        assert_eq!(processor("model name\t: AMD EPYC\n").as_deref(), Some("AMD EPYC"));
    }

    #[test]
    fn arm_numbers_become_a_maker_and_a_part() {
        assert_eq!(processor("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n").as_deref(), Some("ARM 0xd4f"));
        assert_eq!(processor("processor : 0\n"), None);
    }
}
