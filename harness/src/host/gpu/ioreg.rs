//! macOS: the users of the GPU in the I/O registry, which needs no more rights than ours.
//!
//! Each user has an entry that names its process (`IOUserClientCreator`) and the GPU time it has used
//! (`accumulatedGPUTime`, in nanoseconds); the accelerator's own entry has `Device Utilization %`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{GpuReading, GpuUser};

/// The program.
pub const PROGRAM: &str = "/usr/sbin/ioreg";
/// Its arguments: the accelerators with all that hangs on them, lines uncut.
pub const ARGUMENTS: [&str; 5] = ["-r", "-c", "IOAccelerator", "-l", "-w0"];

/// The users in its output; `None` when it shows no accelerator.
pub fn parse(text: &str) -> Option<GpuReading> {
    let mut utilization: Option<f64> = None;
    let mut users: BTreeMap<u32, GpuUser> = BTreeMap::new();
    let mut creator: Option<(u32, String)> = None;
    let mut time: Option<Duration> = None;
    let mut any = false;
    for line in text.lines() {
        if line.contains("+-o ") {
            any = true;
            keep(&mut users, creator.take(), time.take());
        }
        if let Some(found) = quoted_after(line, "\"IOUserClientCreator\" = \"").and_then(pid_and_name) {
            creator = Some(found);
        }
        for nanos in numbers_after(line, "\"accumulatedGPUTime\"=") {
            time = Some(time.unwrap_or_default().saturating_add(Duration::from_nanos(nanos)));
        }
        for pct in numbers_after(line, "\"Device Utilization %\"=") {
            utilization = Some(utilization.unwrap_or(0.0).max(pct as f64));
        }
    }
    keep(&mut users, creator, time);
    any.then(|| GpuReading { utilization_pct: utilization, users: users.into_values().collect() })
}

/// A process may have several entries; its times add up.
fn keep(users: &mut BTreeMap<u32, GpuUser>, creator: Option<(u32, String)>, time: Option<Duration>) {
    let Some((pid, name)) = creator else { return };
    let user = users.entry(pid).or_insert(GpuUser { pid, name: Some(name), ..GpuUser::default() });
    if let Some(time) = time {
        user.time = Some(user.time.unwrap_or_default().saturating_add(time));
    }
}

fn quoted_after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_once(key)?.1.split('"').next()
}

/// `pid 398, WindowServer`.
fn pid_and_name(text: &str) -> Option<(u32, String)> {
    let (pid, name) = text.strip_prefix("pid ")?.split_once(", ")?;
    Some((pid.parse().ok()?, name.to_owned()))
}

fn numbers_after<'a>(line: &'a str, key: &'a str) -> impl Iterator<Item = u64> + 'a {
    line.split(key).skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x1000004c7, registered, matched, active, busy 0 (0 ms), retain 90>
  | {
  |   "PerformanceStatistics" = {"Device Utilization %"=37,"Renderer Utilization %"=36,"In use system memory"=1234}
  | }
  +-o AGXDeviceUserClient  <class AGXDeviceUserClient, id 0x100000a5b, !registered, !matched, active, busy 0, retain 8>
  |   {
  |     "IOUserClientCreator" = "pid 398, WindowServer"
  |     "AppUsage" = ({"API"="Metal","lastSubmittedTime"=144523463213,"accumulatedGPUTime"=2000000000},{"API"="Metal","accumulatedGPUTime"=500000000})
  |   }
  +-o AGXDeviceUserClient  <class AGXDeviceUserClient, id 0x100000a5c>
  |   {
  |     "AppUsage" = ({"API"="Metal","accumulatedGPUTime"=7})
  |     "IOUserClientCreator" = "pid 9001, mlxcel-bench"
  |   }
  +-o AGXDeviceUserClient  <class AGXDeviceUserClient, id 0x100000a5d>
      {
        "IOUserClientCreator" = "pid 398, WindowServer"
      }
"#;

    #[test]
    fn each_process_has_the_time_of_all_its_entries() {
        let reading = parse(TEXT);
        let expected = GpuReading {
            utilization_pct: Some(37.0),
            users: vec![
                GpuUser {
                    pid: 398,
                    name: Some("WindowServer".to_owned()),
                    time: Some(Duration::from_millis(2500)),
                    ..GpuUser::default()
                },
                GpuUser {
                    pid: 9001,
                    name: Some("mlxcel-bench".to_owned()),
                    time: Some(Duration::from_nanos(7)),
                    ..GpuUser::default()
                },
            ],
        };
        assert_eq!(reading, Some(expected));
    }

    #[test]
    fn a_registry_without_an_accelerator_is_no_reading() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\"a-zA-Z=:,%+o -9]{0,120}") {
            let _ = parse(&text);
        }
    }
}
