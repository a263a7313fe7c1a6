//! A reader of metrics.

/// Metrics in Prometheus' text format.
pub struct Metrics(pub String);

impl Metrics {
    /// Returns the sum of all series of this name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let series = self.0.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (this, given) = series.split_once('{').unwrap_or((series, ""));
            let all = labels.iter().all(|(label, value)| {
                let wanted = format!("{label}=\"{value}\"");
                given
                    .trim_end_matches('}')
                    .split(',')
                    .any(|given| given == wanted)
            });
            (this == name && all).then(|| value.parse::<f64>().expect("a number"))
        });
        series.sum()
    }
}
