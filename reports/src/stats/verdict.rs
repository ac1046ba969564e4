//! What repeated measurements of many rows allow to be said of each.
//!
//! All figures are ratios, second side over first: the methods work on logarithms, in which a ratio is a shift.
//!
//! - `FASTER`, `SLOWER`: Holm's p-value is at most alpha, the interval excludes 1, and the estimate is beyond the floor.
//! - `SAME`: the interval lies wholly within the floor. A claim of its own, never the failure of a test.
//! - `UNCLEAR`: neither. The smallest effect that could have been shown says how much that is worth.
//!
//! For a metric of which less is better (load time, memory) `FASTER` means less.

use serde::Serialize;

use super::hodges_lehmann::Shift;
use super::holm;
use super::mann_whitney::mann_whitney;
use crate::text::words;

words! {
    /// What can be said of a row.
    pub enum Verdict ("verdict") {
        /// Better beyond the floor.
        Faster = "FASTER",
        /// Worse beyond the floor.
        Slower = "SLOWER",
        /// Within the floor.
        Same = "SAME",
        /// None of these.
        Unclear = "UNCLEAR",
    }
}

/// How sure one wants to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Certainty {
    /// Largest chance of even one false finding in the whole family of rows.
    pub alpha: f64,
    /// Confidence of each row's interval.
    pub confidence: f64,
}

impl Default for Certainty {
    fn default() -> Self {
        Self { alpha: 0.05, confidence: 0.95 }
    }
}

/// The measurements of one row, each that of a fresh process.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Of the first side, all above zero.
    pub before: &'a [f64],
    /// Of the second side, all above zero.
    pub after: &'a [f64],
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The smallest change that matters, as a share.
    pub floor: f64,
}

/// What was found of one row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Hodges-Lehmann estimate of the ratio.
    pub ratio: f64,
    /// Low end of its interval; none where there are too few measurements for one.
    pub ratio_low: Option<f64>,
    /// High end of its interval.
    pub ratio_high: Option<f64>,
    /// The confidence that the interval reaches.
    pub confidence: Option<f64>,
    /// Mann-Whitney U of the second side.
    pub u: f64,
    /// Its two-sided p-value.
    pub p: f64,
    /// The p-value was counted out, not approximated.
    pub p_exact: bool,
    /// The p-value after Holm's correction over the family.
    pub p_holm: f64,
    /// Rows in the family.
    pub family: usize,
    /// The floor in force.
    pub floor: f64,
    /// The smallest effect that these data could have shown in this family, as a share: the floor, or the longer arm of the
    /// interval at the level of Holm's first step. None when so few measurements could show no effect, however large.
    pub smallest_effect: Option<f64>,
    /// Measurements of the first side.
    pub units_before: usize,
    /// Measurements of the second side.
    pub units_after: usize,
}

/// Fewest measurements a side from which there is anything but a ratio.
pub const FEWEST_UNITS: usize = 2;

/// Judges rows as one family. A row with fewer than [`FEWEST_UNITS`] measurements on a side, or with one that is not a
/// finite number above zero, gets no answer and does not count in the family.
pub fn judge(questions: &[Question<'_>], certainty: Certainty) -> Vec<Option<Answer>> {
    let estimates: Vec<Option<(Shift, Answer)>> =
        questions.iter().map(|question| estimate(question, certainty)).collect();
    let family = estimates.iter().flatten().count();
    let p_values: Vec<f64> = estimates.iter().flatten().map(|(_, answer)| answer.p).collect();
    let mut adjusted = holm::adjust(&p_values).into_iter();
    let mut answers = Vec::with_capacity(questions.len());
    for (question, estimate) in questions.iter().zip(estimates) {
        answers.push(estimate.map(|(shift, mut answer)| {
            answer.family = family;
            answer.p_holm = adjusted.next().unwrap_or(1.0);
            answer.smallest_effect = smallest_effect(&shift, question.floor, certainty.alpha / family as f64);
            answer.verdict = verdict(&answer, question.higher_is_better, certainty.alpha);
            answer
        }));
    }
    answers
}

fn estimate(question: &Question<'_>, certainty: Certainty) -> Option<(Shift, Answer)> {
    let [before, after] = [question.before, question.after].map(|values| {
        (values.len() >= FEWEST_UNITS && values.iter().all(|value| *value > 0.0))
            .then(|| values.iter().map(|value| value.ln()).collect::<Vec<f64>>())
    });
    let (before, after) = (before?, after?);
    let shift = Shift::of(&before, &after)?;
    let test = mann_whitney(&before, &after)?;
    let interval = shift.interval(certainty.confidence);
    let answer = Answer {
        verdict: Verdict::Unclear,
        ratio: shift.estimate().exp(),
        ratio_low: interval.map(|interval| interval.low.exp()),
        ratio_high: interval.map(|interval| interval.high.exp()),
        confidence: interval.map(|interval| interval.confidence),
        u: test.u,
        p: test.p,
        p_exact: test.exact,
        p_holm: 1.0,
        family: 1,
        floor: question.floor,
        smallest_effect: None,
        units_before: before.len(),
        units_after: after.len(),
    };
    Some((shift, answer))
}

fn smallest_effect(shift: &Shift, floor: f64, alpha: f64) -> Option<f64> {
    let interval = shift.interval(1.0 - alpha)?;
    let arm = (interval.high - shift.estimate()).max(shift.estimate() - interval.low);
    Some(arm.exp_m1().max(floor))
}

fn verdict(answer: &Answer, higher_is_better: bool, alpha: f64) -> Verdict {
    let (Some(low), Some(high)) = (answer.ratio_low, answer.ratio_high) else { return Verdict::Unclear };
    let floor = answer.floor;
    if low >= 1.0 - floor && high <= 1.0 + floor {
        return Verdict::Same;
    }
    let excludes_one = low > 1.0 || high < 1.0;
    if answer.p_holm <= alpha && excludes_one && (answer.ratio - 1.0).abs() > floor {
        return if (answer.ratio > 1.0) == higher_is_better { Verdict::Faster } else { Verdict::Slower };
    }
    Verdict::Unclear
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];

    fn times(factor: f64) -> Vec<f64> {
        BEFORE.iter().map(|value| value * factor + 0.01).collect()
    }

    fn ask(before: &[f64], after: &[f64], higher_is_better: bool, floor: f64) -> Answer {
        let question = Question { before, after, higher_is_better, floor };
        judge(&[question], Certainty::default())[0].expect("OK because there are repetitions")
    }

    #[test]
    fn a_clear_change_is_named_by_the_direction_that_is_better() {
        let slow = times(0.8);
        assert_eq!(ask(&BEFORE, &slow, true, 0.02).verdict, Verdict::Slower);
        assert_eq!(ask(&BEFORE, &slow, false, 0.02).verdict, Verdict::Faster);
        assert_eq!(ask(&slow, &BEFORE, true, 0.02).verdict, Verdict::Faster);
        let answer = ask(&BEFORE, &slow, true, 0.02);
        assert!((answer.ratio - 0.8).abs() < 0.01 && answer.u == 0.0, "{answer:?}");
        assert!((answer.p - 2.0 / 252.0).abs() < 1e-15, "{answer:?}");
    }

    #[test]
    fn a_change_within_the_floor_is_the_same_however_significant() {
        let answer = ask(&BEFORE, &times(0.97), true, 0.10);
        assert_eq!(answer.verdict, Verdict::Same);
        assert!(answer.p < 0.05);
        // The same data with a floor that the interval overlaps allow neither claim.
        assert_eq!(ask(&BEFORE, &times(0.97), true, 0.03).verdict, Verdict::Unclear);
    }

    #[test]
    fn three_a_side_are_unclear_however_far_apart() {
        let answer = ask(&BEFORE[..3], &times(0.5)[..3], true, 0.02);
        assert_eq!(answer.verdict, Verdict::Unclear);
        assert_eq!((answer.ratio_low, answer.smallest_effect), (None, None));
    }

    #[test]
    fn a_row_with_one_measurement_gets_no_answer_and_weighs_on_no_other() {
        let slow = times(0.8);
        let question = |before, after| Question { before, after, higher_is_better: true, floor: 0.02 };
        let answers = judge(
            &[question(&BEFORE[..1], &slow[..1]), question(&BEFORE, &slow), question(&[0.0, 1.0], &slow)],
            Certainty::default(),
        );
        assert_eq!(answers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(answers[1].map(|answer| (answer.family, answer.verdict)), Some((1, Verdict::Slower)));
    }

    #[test]
    fn the_more_rows_are_looked_at_the_more_must_be_shown() {
        let slow = times(0.8);
        let mut questions =
            vec![Question { before: &BEFORE, after: &slow, higher_is_better: true, floor: 0.02 }];
        let calm = times(1.0);
        // 2/252 * 7 rows is above 5%.
        questions
            .extend([Question { before: &BEFORE, after: &calm, higher_is_better: true, floor: 0.02 }; 6]);
        let answers = judge(&questions, Certainty::default());
        assert_eq!(answers[0].map(|answer| answer.verdict), Some(Verdict::Unclear));
        assert_eq!(answers[0].and_then(|answer| answer.smallest_effect), None);
        assert_eq!(answers[1].map(|answer| answer.verdict), Some(Verdict::Same));
    }

    #[test]
    fn the_smallest_effect_is_one_that_would_have_been_found() {
        let noisy = [80.0, 120.0, 95.0, 105.0, 100.0, 90.0];
        let answer = ask(&noisy, &noisy, true, 0.02);
        let effect = answer.smallest_effect.expect("OK because six a side can show something");
        assert_eq!(answer.verdict, Verdict::Unclear);
        let shifted = |factor: f64| noisy.map(|value| value * factor);
        assert_eq!(ask(&noisy, &shifted(1.01 + effect), true, 0.02).verdict, Verdict::Faster);
        assert_ne!(ask(&noisy, &shifted(1.0 + effect * 0.9), true, 0.02).verdict, Verdict::Faster);
    }
}
