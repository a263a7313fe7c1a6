//! What the process takes of the machine, under the names that all programs use for it, and when
//! its certificates end. It is read for each request of `/metrics`, most of it from `/proc`. What
//! cannot be read is not shown.

use crate::base::calendar::unix_time;
use crate::tls::Certificate;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The clock ticks of a second in `/proc`: the kernel's interface fixes it.
const TICKS: f64 = 100.0;

/// The readings of the process.
#[derive(Debug)]
pub(super) struct ThisProcess {
    /// The time at which the process began, in seconds of Unix time.
    pub(super) started: f64,
}

impl ThisProcess {
    /// Returns the readings of a process that begins now.
    pub(super) fn new() -> ThisProcess {
        ThisProcess {
            started: unix_time(SystemTime::now()).as_secs_f64(),
        }
    }
}

impl Collector for ThisProcess {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(seconds) = cpu_seconds(&read_proc("stat")) {
            let metric = ConstCounter::new(seconds);
            let help = "Time that the process used processors";
            metric.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                metric.metric_type(),
            )?)?;
        }
        let status = read_proc("status");
        // One of the descriptors is the folder itself.
        let open = std::fs::read_dir("/proc/self/fd")
            .ok()
            .map(|all| all.count().saturating_sub(1) as f64);
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Memory of the process that is in RAM",
                number_after(&status, "VmRSS:").map(|kib| kib * 1024.0),
            ),
            (
                "process_open_fds",
                "File descriptors that the process has open, connections included",
                open,
            ),
            (
                "process_max_fds",
                "File descriptors that the process may have open",
                number_after(&read_proc("limits"), "Max open files"),
            ),
            (
                "process_threads",
                "Threads of the process",
                number_after(&status, "Threads:"),
            ),
            (
                "process_start_time_seconds",
                "Unix time at which the process started",
                Some(self.started),
            ),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}

/// Reads a file about this process; without it there is nothing to read.
fn read_proc(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()
}

/// The certificates of the listeners, each with its listener's address.
#[derive(Debug)]
pub(super) struct Certificates(pub(super) Vec<(String, Arc<Certificate>)>);

impl Collector for Certificates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Unix time at which the certificate of a TLS listener ends";
        let mut family = encoder.encode_descriptor(
            "certificate_expiry_seconds",
            help,
            None,
            MetricType::Gauge,
        )?;
        for (listener, certificate) in &self.0 {
            if let Some(ends) = certificate.ends() {
                ConstGauge::new(ends)
                    .encode(family.encode_family(&[("listener", &**listener)])?)?;
            }
        }
        Ok(())
    }
}

/// Returns the time on processors that `/proc/self/stat` tells: of the program, and of the system
/// for it.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The program's name is in brackets, and may hold spaces and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

/// Returns the first number behind a name that begins a line.
fn number_after(text: &str, name: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_writes_them() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 3 0 150 50 9 9 20 0 4 0 1000 1 1";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("7 (a"), None);
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 4096                 files     \n";
        assert_eq!(number_after(limits, "Max open files"), Some(1024.0));
        assert_eq!(
            number_after("VmSize:\t  9 kB\nVmRSS:\t   12 kB\n", "VmRSS:"),
            Some(12.0)
        );
        assert_eq!(
            number_after(
                "Max open files            unlimited            unlimited            files",
                "Max open files"
            ),
            None
        );
    }
}
