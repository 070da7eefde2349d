//! What a round brought: one heat of every contender.

use std::collections::HashMap;

use crate::row::Measure;

/// The heats of one round, by the name of the contender.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) measure: Option<Measure>,
    pub(crate) heats: HashMap<String, Heat>,
}

impl Round {
    /// What a turn of this contender cost, in nanoseconds.
    pub(crate) fn cost(&self, contender: &str) -> Option<f64> {
        let measure = self.measure?;
        self.heat(contender).map(|heat| heat.cost(measure))
    }

    pub(crate) fn heat(&self, contender: &str) -> Option<&Heat> {
        self.heats.get(contender).filter(|heat| heat.turns > 0)
    }
}

/// What the processes of one contender did together. Parts that do not count are not in it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Heat {
    /// Turns of all parts; a part that takes its samples itself has as many turns as samples.
    pub(crate) turns: u64,
    /// Those of them that ended inside the window.
    pub(crate) turns_inside: u64,
    /// The time in which turns are counted for the rate; of a heat that is not limited by time, from the
    /// first start to the last end.
    pub(crate) window_ns: u64,
    /// Processor time of all processes, from their starts to their ends.
    pub(crate) cpu_ns: u64,
    /// The processor time of the process that had most.
    pub(crate) cpu_most_ns: u64,
    /// The largest resident set of all processes.
    pub(crate) memory_bytes: u64,
    /// Sorted.
    pub(crate) samples: Vec<u64>,
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a heat are far below 2^52")]
impl Heat {
    pub(crate) fn cost(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Median => self.quantile(0.5),
            Measure::P99 => self.quantile(0.99),
            // At least one: a turn may take longer than the window.
            Measure::PerTurn => self.window_ns as f64 / self.turns_inside.max(1) as f64,
            Measure::CpuPerTurn => self.cpu_ns as f64 / self.turns as f64,
        }
    }

    /// The processor time of the process that had most.
    pub(crate) fn cpu_most(&self) -> f64 {
        self.cpu_most_ns as f64
    }

    /// The sample that this part of all samples does not exceed.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        quantile(&self.samples, part)
    }

    pub(crate) fn mean(&self) -> f64 {
        let sum: u128 = self.samples.iter().map(|sample| u128::from(*sample)).sum();
        sum as f64 / self.samples.len().max(1) as f64
    }

    pub(crate) fn longest(&self) -> f64 {
        self.samples.last().map_or(0.0, |longest| *longest as f64)
    }

    /// How often each duration came, in classes that are 1/16 of a power of two wide: the raw record
    /// of a run, without its hundreds of thousands of numbers. Each class is named by its lower end.
    pub(crate) fn histogram(&self) -> Vec<(u64, u64)> {
        let mut classes: Vec<(u64, u64)> = Vec::new();
        for sample in &self.samples {
            let width = 1_u64 << sample.checked_ilog2().unwrap_or(0).saturating_sub(4);
            let class = sample / width * width;
            match classes.last_mut() {
                Some((last, count)) if *last == class => *count += 1,
                _ => classes.push((class, 1)),
            }
        }
        classes
    }
}

/// Of sorted samples, the one that `part` of all do not exceed.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions in a list of samples"
)]
pub(crate) fn quantile(sorted: &[u64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(at.saturating_sub(1)).map_or(0.0, |sample| *sample as f64)
}

/// The middle of some numbers, and their smallest and largest.
pub(crate) fn spread(numbers: &[f64]) -> Option<(f64, f64, f64)> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    };
    Some((median, first, last))
}

#[cfg(test)]
mod tests {
    use super::{Heat, quantile, spread};

    #[test]
    fn quantiles_are_samples() {
        let samples: Vec<u64> = (1..=1000).collect();
        let near = |part, sample: f64| assert!((quantile(&samples, part) - sample).abs() < 0.5);
        near(0.5, 500.0);
        near(0.99, 990.0);
        near(0.999, 999.0);
        near(1.0, 1000.0);
        assert!(quantile(&[], 0.5) < 0.5);
    }

    #[test]
    fn a_histogram_keeps_every_sample() {
        let samples = vec![0, 1, 1, 15, 100, 101, 1_000_000];
        let heat = Heat { samples, ..Heat::default() };
        let classes = heat.histogram();
        assert_eq!(classes.iter().map(|(_, count)| count).sum::<u64>(), 7);
        assert_eq!(classes[..3], [(0, 1), (1, 2), (15, 1)]);
        assert!(classes[3].0 <= 100 && 100 - classes[3].0 <= 4);
    }

    #[test]
    fn the_spread_of_rounds() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(&[]), None);
    }
}
