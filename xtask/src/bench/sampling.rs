//! Processor time and memory of processes and of the machine, from `/proc`.
//!
//! All values are of one moment; the cost of a phase is the difference of two moments. Steal is time that the host gave to
//! other guests. The machine's busy time shows whether other programs ran beside the benchmark.

use std::fs;
use std::ops::Sub;

use anyhow::{Context, Result};

/// Processor time of the whole machine, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MachineTime {
    /// Time of all processes and of the kernel.
    pub(super) busy_secs: f64,
    /// Time that the host gave to other guests.
    pub(super) steal_secs: f64,
    /// The sum over all processors, idle time included.
    pub(super) all_secs: f64,
}

// === impl MachineTime ===

impl MachineTime {
    /// The time since the machine was booted.
    pub(super) fn now() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        machine_time(&stat, ticks_per_sec()).context("/proc/stat is not as expected")
    }
}

impl Sub for MachineTime {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            busy_secs: self.busy_secs - earlier.busy_secs,
            steal_secs: self.steal_secs - earlier.steal_secs,
            all_secs: self.all_secs - earlier.all_secs,
        }
    }
}

/// The processor time a process has used so far, in seconds.
pub(super) fn cpu_secs(pid: u32) -> Result<f64> {
    Ok(read(pid, "stat", cpu_ticks)? / ticks_per_sec())
}

/// Its resident memory now, in bytes.
pub(super) fn resident_bytes(pid: u32) -> Result<f64> {
    read(pid, "status", |status| memory(status, "VmRSS:"))
}

/// Its largest resident memory so far, in bytes.
pub(super) fn peak_bytes(pid: u32) -> Result<f64> {
    read(pid, "status", |status| memory(status, "VmHWM:"))
}

fn read(pid: u32, file: &str, parse: impl Fn(&str) -> Option<f64>) -> Result<f64> {
    let path = format!("/proc/{pid}/{file}");
    let gone = || format!("cannot read {path}: has the process ended?");
    let text = fs::read_to_string(&path).with_context(gone)?;
    parse(&text).with_context(|| format!("{path} is not as expected"))
}

fn ticks_per_sec() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// The value of a line of `/proc/<pid>/status` that holds an amount of memory.
fn memory(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Fields 14 and 15 of `/proc/<pid>/stat`, time in user and in kernel mode. The second field may hold anything, so
/// counting starts behind its last `)`.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let (user, kernel): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + kernel)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; the first two contain the
/// fields that follow.
fn machine_time(stat: &str, ticks_per_sec: f64) -> Option<MachineTime> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<f64> = line
        .split_ascii_whitespace()
        .map_while(|field| Some(field.parse::<f64>().ok()? / ticks_per_sec))
        .collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    let busy_secs = user + nice + system + irq + softirq;
    Some(MachineTime {
        busy_secs,
        steal_secs: steal,
        all_secs: busy_secs + idle + iowait + steal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status_of_a_process() {
        let status = "Name:\tetcd\nVmHWM:\t  200 kB\nVmRSS:\t  100 kB\nThreads:\t9\n";
        assert_eq!(memory(status, "VmRSS:"), Some(102_400.0));
        assert_eq!(memory(status, "VmHWM:"), Some(204_800.0));
        for broken in ["", "VmRSS:\t many kB\n", "VmRSS: 7\n"] {
            assert_eq!(memory(broken, "VmRSS:"), None, "{broken:?}");
        }
    }

    #[test]
    fn processor_time_is_read_after_any_program_name() {
        let rest = "S 1 1 1 0 -1 4194304 101 0 0 0 70 5 0 0 20 0 1 0 80290";
        for name in ["etcd", "a b) S"] {
            assert_eq!(
                cpu_ticks(&format!("7 ({name}) {rest}")),
                Some(75.0),
                "{name}"
            );
        }
        assert_eq!(cpu_ticks("7 (etcd) S 1"), None);
    }

    #[test]
    fn time_of_the_machine_is_split_into_work_steal_and_the_rest() {
        let stat = "cpu  100 1 20 1000 50 2 3 40 7 7\ncpu0 1 1 1\n";
        let expected = MachineTime {
            busy_secs: 126.0,
            steal_secs: 40.0,
            all_secs: 1216.0,
        };
        assert_eq!(machine_time(stat, 1.0), Some(expected));
        for broken in ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3\n"] {
            assert_eq!(machine_time(broken, 1.0), None, "{broken:?}");
        }
    }
}
