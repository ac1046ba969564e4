//! A diagnosis for people, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json as object};

use super::{Diagnosis, LEVELS, Noise, Resolves, store};
use crate::host::llc::{LlcSource, VARIABLE};
use crate::text::bytes;

impl Resolves {
    const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// One JSON document: the stored form, and the verdict.
///
/// # Errors
/// When a value cannot be written as JSON.
pub fn json(diagnosis: &Diagnosis) -> serde_json::Result<Value> {
    let mut document = store::to_json(diagnosis)?;
    let verdict: Vec<Value> = diagnosis
        .noise
        .iter()
        .map(|noise| {
            let resolves: serde_json::Map<String, Value> =
                LEVELS.iter().map(|share| (percent(*share), noise.resolves(*share).word().into())).collect();
            object!({
                "metric": noise.metric,
                "processes_a_side": noise.processes_a_side(),
                "ratio": noise.ratio,
                "ratio_low": noise.interval.map(|(low, _)| low),
                "ratio_high": noise.interval.map(|(_, high)| high),
                "p": noise.p,
                "largest_deviation_pct": noise.largest_deviation * 100.0,
                "single_floor_pct": noise.floor() * 100.0,
                "resolves": resolves,
            })
        })
        .collect();
    if let Value::Object(fields) = &mut document {
        fields.insert("contended".to_owned(), diagnosis.conditions.is_contended().into());
        fields.insert("disturbed".to_owned(), diagnosis.conditions.disturbed().into());
        fields.insert("verdict".to_owned(), verdict.into());
    }
    Ok(document)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// For people.
pub fn table(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let unknown = || "unknown".to_owned();
    // OK to ignore: writing to a String does not fail.
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<18} {value}");
    };
    let host = &diagnosis.host;
    let hardware = host.hardware.clone().unwrap_or_else(unknown);
    line("host", format!("{hardware}, {}, {}", host.backend, host.os.clone().unwrap_or_else(unknown)));
    line("last-level cache", cache(diagnosis));
    line("memory read", stream(diagnosis));
    if let Some(stream) = &diagnosis.device_stream {
        line(
            "GPU memory",
            format!(
                "{:.1} GB/s at best ({}), {:.1} in the median, by MLX over {}",
                stream.best_bytes_per_second / 1e9,
                stream.operation,
                stream.median_bytes_per_second / 1e9,
                bytes(stream.buffer_bytes)
            ),
        );
    }
    line("matrices", gemm(diagnosis));
    let control = &diagnosis.control;
    line(
        "control",
        format!(
            "{}, {} prompt and {} generated tokens, repetitions a process: {}",
            control.model, control.prompt_tokens, control.max_tokens, control.reps
        ),
    );
    line("conditions", conditions(diagnosis));
    for noise in &diagnosis.noise {
        line(&format!("{} A/A", noise.metric), aa(noise));
    }
    text.push('\n');
    for noise in &diagnosis.noise {
        let words: Vec<String> = LEVELS
            .iter()
            .map(|share| format!("{} {}", percent(*share), noise.resolves(*share).word()))
            .collect();
        let _ = writeln!(
            text,
            "{}: can tell a difference of {} (with {} processes a side); between two single runs anything below {:.1}% is noise",
            noise.metric,
            words.join(", "),
            noise.processes_a_side(),
            noise.floor() * 100.0
        );
    }
    if let Some(why) = diagnosis.conditions.disturbed() {
        let _ = writeln!(
            text,
            "{why}: this may be the noise of a busy host, and `sweep` does not take it for its controls"
        );
    }
    if !diagnosis.program.optimized {
        text.push_str(
            "this program is not an optimized build; build with --release for figures that mean something\n",
        );
    }
    text
}

fn cache(diagnosis: &Diagnosis) -> String {
    let Some(cache) = &diagnosis.cache else {
        return format!("unknown; set {VARIABLE} where a measurement needs it");
    };
    let how = match cache.source {
        LlcSource::Variable => format!("as {VARIABLE} says"),
        LlcSource::System => "as the system says".to_owned(),
        LlcSource::Table => "estimated by the chip's family".to_owned(),
    };
    let slices = if cache.slices > 1 { format!(" in {} slices", cache.slices) } else { String::new() };
    format!("{}{slices}, {how}", bytes(cache.bytes))
}

fn stream(diagnosis: &Diagnosis) -> String {
    diagnosis.stream.as_ref().map_or_else(
        || "not measured".to_owned(),
        |stream| {
            format!(
                "{:.1} GB/s at best, {:.1} in the median, by the processor with {} threads over {}",
                stream.best_bytes_per_second / 1e9,
                stream.median_bytes_per_second / 1e9,
                stream.threads,
                bytes(stream.buffer_bytes)
            )
        },
    )
}

fn gemm(diagnosis: &Diagnosis) -> String {
    diagnosis.gemm.as_ref().map_or_else(
        || "not measured".to_owned(),
        |gemm| {
            format!(
                "{:.1} GFLOP/s in the median ({}, {} threads)",
                gemm.median_flops / 1e9,
                gemm.kernel,
                gemm.threads
            )
        },
    )
}

fn conditions(diagnosis: &Diagnosis) -> String {
    let conditions = &diagnosis.conditions;
    let mut parts =
        vec![format!("quiet gate {} after {:.0} s", conditions.quiet.word(), conditions.quiet_wait_seconds)];
    parts.push(match (&conditions.contended_fraction, &conditions.busiest) {
        (None, _) => "what else ran is unknown".to_owned(),
        (Some(fraction), None) => format!("others busy for {:.0}% of the time", fraction * 100.0),
        (Some(fraction), Some(busiest)) => {
            format!("others busy for {:.0}% of the time, most of all {busiest}", fraction * 100.0)
        }
    });
    parts.extend(conditions.hottest_celsius.map(|celsius| format!("at most {celsius:.0} degrees")));
    parts.extend(conditions.throttle.iter().cloned());
    parts.extend(conditions.power.clone());
    parts.join("; ")
}

fn aa(noise: &Noise) -> String {
    let interval = noise.interval.map_or_else(
        || "no interval: too few processes".to_owned(),
        |(low, high)| format!("95% interval {low:.4} to {high:.4}"),
    );
    let median = |values: &[f64]| {
        mlxcel_reports::statistics::Summary::of(values).map_or(f64::NAN, |summary| summary.median)
    };
    format!(
        "{:.2} and {:.2} {}, ratio {:.4} ({interval}), farthest {:.1}% from the median",
        median(&noise.first),
        median(&noise.second),
        noise.metric.unit(),
        noise.ratio,
        noise.largest_deviation * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::diagnosis;
    use super::*;

    #[test]
    fn the_verdict_is_told_in_words_and_in_json() -> serde_json::Result<()> {
        let calm = [100.0, 100.4, 99.7, 100.1, 99.9];
        let found = diagnosis(&calm, &calm);
        let text = table(&found);
        assert!(
            text.contains("can tell a difference of 2% yes, 5% yes, 10% yes (with 5 processes a side)"),
            "{text}"
        );
        assert!(text.contains("anything below 0.8% is noise"), "{text}");
        let document = json(&found)?;
        assert_eq!(document.pointer("/verdict/0/resolves/2%"), Some(&"yes".into()));
        assert_eq!(document.pointer("/verdict/0/metric"), Some(&"decode".into()));
        assert_eq!(document.pointer("/contended"), Some(&false.into()));
        Ok(())
    }

    #[test]
    fn the_memory_of_a_gpu_has_a_line_where_there_is_one() {
        let mut found = diagnosis(&[100.0, 101.0], &[100.0, 99.0]);
        assert!(!table(&found).contains("GPU memory"));
        found.device_stream = Some(crate::host::device_stream::DeviceStream {
            best_bytes_per_second: 4.2e12,
            median_bytes_per_second: 4.1e12,
            operation: "addition".to_owned(),
            buffer_bytes: 4 << 30,
            passes: 40,
        });
        let text = table(&found);
        assert!(text.contains("4200.0 GB/s at best (addition), 4100.0 in the median"), "{text}");
    }

    #[test]
    fn what_weakens_the_verdict_is_told_beside_it() {
        let mut found = diagnosis(&[100.0, 101.0], &[100.0, 99.0]);
        found.conditions.contended_fraction = Some(0.5);
        found.conditions.busiest = Some("make (process 7), 99% of a core".to_owned());
        found.program.optimized = false;
        let text = table(&found);
        for words in ["2% unknown", "busy host", "--release", "make (process 7)", "too few processes"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
