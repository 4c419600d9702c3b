//! Order statistics over small samples.

/// The value at quantile `q` (0..=1) by the nearest-rank rule; `None` for an empty sample.
pub(super) fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// Rounds to two decimals: more would claim a precision that a loaded machine does not have.
pub(super) fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_a_value_of_the_sample() {
        let samples = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(quantile(&samples, 0.5), Some(3.0));
        assert_eq!(quantile(&samples, 0.95), Some(5.0));
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
