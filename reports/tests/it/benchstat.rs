//! The benchstat form of a gate, read by the rules of the Go benchmark data format: configuration lines, unit lines, and
//! benchmark lines whose names have parts. The reader below is written from that format's description.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use mlxcel_reports::gate::policy::Policy;
use mlxcel_reports::gate::report::GateReport;
use mlxcel_reports::gate::spread::Spreads;
use mlxcel_reports::gate::{Request, run};
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::render::gate::benchstat;

/// One benchmark line under the configuration in force.
#[derive(Debug)]
struct Line {
    configuration: BTreeMap<String, String>,
    /// The name without its parts.
    base: String,
    /// Parts of the form `/key=value`.
    parts: BTreeMap<String, String>,
    processors: Option<String>,
    values: Vec<(f64, String)>,
}

#[derive(Debug, Default)]
struct Document {
    units: BTreeMap<String, BTreeMap<String, String>>,
    lines: Vec<Line>,
}

/// Reads a document and panics where a line is of none of the three kinds, which a tolerant reader would pass over. Warnings are
/// such lines, and say so.
fn read(text: &str) -> Document {
    let mut document = Document::default();
    let mut configuration = BTreeMap::new();
    assert!(text.ends_with('\n'));
    for line in text.lines().filter(|line| !line.starts_with("# warning ")) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let Some(("Unit", rest)) = line.split_once(' ') {
            let mut rest = rest.split_whitespace();
            let unit = rest.next().expect("OK because a unit line names its unit");
            let pairs = rest.map(|pair| pair.split_once('=').expect("OK because it is key=value"));
            let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            assert!(document.units.insert(unit.to_owned(), pairs).is_none(), "{unit} is declared twice");
        } else if line.strip_prefix("Benchmark").is_some_and(|rest| !rest.starts_with(char::is_lowercase)) {
            assert!(fields.len() >= 4 && fields.len().is_multiple_of(2), "{line}");
            assert!(fields[1].parse::<u64>().is_ok_and(|iterations| iterations > 0), "{line}");
            let number = |text: &str| text.parse::<f64>().expect("OK because a value is a number");
            let name = fields[0].strip_prefix("Benchmark").unwrap_or_default();
            let (name, processors) = match name.rsplit_once('-') {
                Some((rest, end)) if !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()) => {
                    (rest, Some(end.to_owned()))
                }
                _ => (name, None),
            };
            let mut parts = name.split('/');
            document.lines.push(Line {
                configuration: configuration.clone(),
                base: parts.next().unwrap_or_default().to_owned(),
                parts: parts
                    .map(|part| part.split_once('=').expect("OK because a part is key=value"))
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
                processors,
                values: fields[2..].chunks(2).map(|pair| (number(pair[0]), pair[1].to_owned())).collect(),
            });
        } else {
            let (key, value) =
                line.split_once(':').unwrap_or_else(|| panic!("{line:?} is no line of the format"));
            assert!(key.starts_with(|c: char| c.is_ascii_lowercase()), "{line}");
            assert!(!key.contains(|c: char| c.is_whitespace() || c.is_uppercase()), "{line}");
            configuration.insert(key.to_owned(), value.trim().to_owned());
        }
    }
    document
}

/// Names that a careless form would merge, cut or break.
const MODELS: [&str; 8] =
    ["phi-3", "phi-4", "two words", "two_words", "two/words", "two%20words", "größe=1", "a-b-128"];

fn file(side: &str, commit: &str, number: u32, decode_ms: f64) -> SourceFile {
    let header = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                  hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n";
    let rows = MODELS.iter().zip(1_u32..).map(|(model, place)| {
        let decode = decode_ms * f64::from(place) + f64::from(number);
        format!(
            "{model},./models/x/,512,128,{:.2},,{decode:.2},,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,128,hi,512,{commit},\
             9a795735\n",
            decode / 10.0
        )
    });
    let text = header.to_owned() + &rows.collect::<String>();
    history::read_bytes(&format!("{side}-{number}.csv"), text.as_bytes())
        .expect("OK because the layout is known")
}

fn gate() -> GateReport {
    let side = |side: &str, commit: &str, decode_ms: f64| -> Vec<SourceFile> {
        (0..4).map(|number| file(side, commit, number, decode_ms)).collect()
    };
    run(Request {
        baseline: side("a", "11111111", 1270.0),
        candidate: side("b", "22222222", 1300.0),
        policy: Policy::parse("gate.toml".as_ref(), "metrics = [\"decode\", \"prefill\"]\n")
            .expect("OK because the policy of a test is good"),
        spreads: Spreads::default(),
        names: &ExactNames,
        sources: Vec::new(),
        protected: None,
        today: Date::constant(2026, 11, 29),
        tell_improvements: false,
        command: Vec::new(),
    })
}

#[test]
fn every_measurement_stands_under_its_own_name_side_and_unit() {
    let report = gate();
    assert_eq!(report.rows.len(), MODELS.len() * 2, "{report:#?}");
    let document = read(&benchstat(&report));
    let mut found: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
    for line in &document.lines {
        assert_eq!(line.processors, None, "{line:?}");
        assert_eq!(line.base.to_ascii_lowercase(), line.parts["metric"], "{line:?}");
        let [(value, unit)] = line.values.as_slice() else { panic!("{line:?}") };
        assert_eq!(unit, "tok/s");
        let key =
            (line.configuration["side"].clone(), line.parts["model"].clone(), line.parts["metric"].clone());
        found.entry(key).or_default().push(*value);
    }
    let names: BTreeSet<&str> = found.keys().map(|(_, model, _)| model.as_str()).collect();
    assert_eq!(names.len(), MODELS.len(), "{names:?}");
    assert_eq!(found.len(), MODELS.len() * 4);
    for row in &report.rows {
        for (side, values) in [("baseline", &row.values_before), ("candidate", &row.values_after)] {
            assert_eq!(values.len(), 4);
            let is_of_row = |(of_side, _, metric): &(String, String, String)| {
                of_side == side && metric == row.metric.as_str()
            };
            let same = found.iter().filter(|(key, found)| is_of_row(key) && *found == values).count();
            assert_eq!(same, 1, "{} {side} {values:?}", row.model);
        }
    }
}

#[test]
fn each_unit_says_once_which_direction_is_better() {
    let units = read(&benchstat(&gate())).units;
    let expected = [("better", "higher"), ("assume", "nothing")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!(units, BTreeMap::from([("tok/s".to_owned(), expected)]));
}
